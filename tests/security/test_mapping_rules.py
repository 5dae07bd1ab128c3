"""Rules from names of certificates to principals. Cases and results are those of Apache Kafka."""

import pytest

from penstock.security.mapping_rules import MappingRules, NoRuleFits


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        (
            "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
            "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
            "duke@sme",
        ),
        (
            "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, DEFAULT",
            "cn=d,ou=s,dc=a,dc=b",
            "D@S",
        ),
        ("RULE:^CN=x$/y/, DEFAULT", "CN=z", "CN=z"),
        ("RULE:CN=(.*)/$1@$4/", "CN=a", "a@$4"),
        ("RULE:CN=(.*)/$10/", "CN=a", "a0"),
        ("RULE:CN=(.*)/\\$1\\/$1/", "CN=a", "$1/a"),
        ("RULE:.*/x/", "abc", "xx"),
        ("RULE:^.*$/<$0>/", "CN=a", "<CN=a>"),
        ("RULE:^CN=(.*?)(,O=.*)?$/$1$2/", "CN=a", "a"),
        (" RULE:a/b/ ,, DEFAULT ", "c", "c"),
    ],
)
def test_the_first_rule_that_fits_gives_the_name(rules: str, name: str, mapped: str) -> None:
    assert MappingRules.parse(rules).apply(name) == mapped


@pytest.mark.parametrize("rules", ["RULE:^CN=x$/y/", "RULE:CN=(.*)/$1/", ""])
def test_a_name_that_no_rule_fits_has_no_principal(rules: str) -> None:
    with pytest.raises(NoRuleFits, match="O=a"):
        MappingRules.parse(rules).apply("O=a")


@pytest.mark.parametrize("replacement", ["$1", "x$", "${1}", "$x"])
def test_a_reference_to_no_group_gives_no_principal(replacement: str) -> None:
    rules = MappingRules.parse(f"RULE:CN=b/{replacement}/, RULE:CN=a/{replacement}/, DEFAULT")
    assert rules.apply("CN=c") == "CN=c"
    with pytest.raises(NoRuleFits, match="refers to a group"):
        rules.apply("CN=a")


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "RULE:CN=.*",
        "RULE:CN=.*/x",
        "RULE:CN=.*/x/LU",
        "RULE:[/]/x/",
        "RULE:(/x/",
        "RULE:\\p{L}*/x/",
    ],
)
def test_a_wrong_rule_is_rejected(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        MappingRules.parse(rules)
