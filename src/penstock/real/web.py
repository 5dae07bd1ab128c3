"""Small documents from the web. Waits: for worker threads."""

from http.client import HTTPException
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request


def fetch_document(url: str, bytes_max: int, timeout_ms: float) -> bytes:
    """Return the content at an http or https URL; raise OSError. Certificates are checked by the
    authorities of the system. No redirect is followed: the configured address is the trusted
    one."""
    opener = OpenerDirector()
    for handler in (HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    try:
        answer = opener.open(Request(url), timeout=timeout_ms / 1000)
        if answer is None:
            raise OSError("no http or https URL")
        with answer:
            if answer.status != 200:
                raise OSError(f"HTTP {answer.status}")
            data: bytes = answer.read(bytes_max + 1)
    except HTTPException as problem:
        raise OSError(f"no HTTP ({type(problem).__name__})") from problem
    if len(data) > bytes_max:
        raise OSError(f"more than {bytes_max} bytes")
    return data
