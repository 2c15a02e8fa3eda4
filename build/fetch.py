"""fetch.py URL SHA256 FILE: downloads FILE, going on where an earlier try broke off, and checks it."""

import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request

CHUNK = 1 << 18
TRIES = 5


def say(message):
    print(f"fetch: {message}", file=sys.stderr, flush=True)


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def digest(path):
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            sha256.update(chunk)
    return sha256.hexdigest()


def pull(url, part):
    """Appends to `part` what the server still has; True when that was all of it."""
    have = size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        reply = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing lies past what is there
            return True
        raise
    with reply:
        if reply.status != 206:  # the server sends the file from its start
            have = 0
        total = have + int(reply.headers.get("Content-Length") or 0)
        said = time.monotonic()
        with open(part, "ab" if have else "wb") as file:
            while chunk := reply.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                if time.monotonic() - said > 5:
                    said = time.monotonic()
                    say(f"{have / 1e6:.0f} of {total / 1e6:.0f} MB")
    return have >= total


def fetch(url, sha256, path):
    part = path + ".part"
    for left in reversed(range(TRIES)):
        before = size(part)
        say(f"going on with {url} at {before / 1e6:.0f} MB" if before else f"downloading {url}")
        try:
            if pull(url, part):
                break
            reason = "the connection closed early"
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            reason = getattr(reason, "strerror", None) or reason
        if not left or size(part) == before:
            sys.exit(f"fetch: cannot download {url}: {reason}")
        say(f"{reason}; trying again")
    if digest(part) != sha256:
        os.remove(part)
        sys.exit(f"fetch: what {url} sent has not the SHA-256 {sha256}; it is removed")
    os.replace(part, path)


def main(url, sha256, path):
    if not os.path.exists(path):
        fetch(url, sha256, path)
    elif digest(path) != sha256:
        sys.exit(f"fetch: {path} has not the SHA-256 {sha256}: remove it, or put the right file there")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
