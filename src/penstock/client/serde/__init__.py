"""Serializers, deserializers and schemas: keys and values in Python and as bytes.

`serializer_of` and `deserializer_of` take an object, a function, a type or a name, Java's own among
them. Numbers are big-endian, as Java's serializers write them.
"""
