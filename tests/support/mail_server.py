"""A mail server on the loopback: STARTTLS or TLS from the first byte, AUTH PLAIN and LOGIN. Runs under PyPy 3.9 too."""

from __future__ import annotations

import base64
import contextlib
import socketserver
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple


class Letter(NamedTuple):
    """One mail as it was taken."""

    sender: str
    to: Tuple[str, ...]
    text: str
    private: bool  # the line was encrypted
    user: str


class MailServer:
    """What came, whom it lets in, and what it refuses."""

    def __init__(self, tls: Optional[ssl.SSLContext], at_once: bool) -> None:
        self.tls = tls
        self.at_once = at_once
        self.login = ("me@example.org", "app-password-1")
        self.letters: List[Letter] = []
        self.refuse: str = ""  # answered to the next RCPT
        self.port = 0


def certificate(folder: Path) -> Tuple[Path, Path]:
    """Make a key and a certificate for localhost; a client trusts it by SSL_CERT_FILE."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    return key, cert


@contextlib.contextmanager
def mail_server(pair: Optional[Tuple[Path, Path]] = None, at_once: bool = False) -> Iterator[MailServer]:
    """Serve mail; with a pair of key and certificate STARTTLS is offered, or TLS spoken at once."""
    context = None
    if pair is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(pair[1]), str(pair[0]))
    bed = MailServer(context, at_once)

    class Door(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError, ssl.SSLError):
                _Talk(bed, self.request).run()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    server = Server(("127.0.0.1", 0), Door)
    bed.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield bed
    finally:
        server.shutdown()
        server.server_close()


class _Talk:
    def __init__(self, bed: MailServer, line: Any) -> None:
        self.bed = bed
        self.private = bed.at_once
        self.line = bed.tls.wrap_socket(line, server_side=True) if bed.tls and bed.at_once else line
        self.file = self.line.makefile("rb")
        self.user = self.sender = ""
        self.to: List[str] = []

    def say(self, text: str) -> None:
        self.line.sendall((text + "\r\n").encode("ascii"))

    def hear(self) -> str:
        return str(self.file.readline().decode("utf-8").rstrip("\r\n"))

    def run(self) -> None:
        self.say("220 localhost here")
        while True:
            said = self.hear()
            word = said.split(" ")[0].upper()
            if not said or word == "QUIT":
                self.say("221 bye")
                return
            getattr(self, "on_" + word.lower(), self.on_other)(said)

    def on_ehlo(self, said: str) -> None:
        offers = ["STARTTLS"] if self.bed.tls and not self.private else ["AUTH PLAIN LOGIN"]
        self.say("250-localhost\r\n250 " + offers[0])

    def on_starttls(self, said: str) -> None:
        self.say("220 go")
        assert self.bed.tls is not None
        self.line = self.bed.tls.wrap_socket(self.line, server_side=True)
        self.file, self.private = self.line.makefile("rb"), True

    def on_auth(self, said: str) -> None:
        if not self.private:
            self.say("538 5.7.11 Encryption required")
            return
        _, way, given = said.split(" ")
        words = base64.b64decode(given).decode("utf-8").split("\0")
        if way.upper() == "LOGIN":
            self.say("334 UGFzc3dvcmQ6")
            words += [base64.b64decode(self.hear()).decode("utf-8")]
        user, password = words[-2:]
        if (user, password) != self.bed.login:
            self.say("535 5.7.8 %s is not the password of %s" % (password, user))
            return
        self.user = user
        self.say("235 welcome")

    def on_mail(self, said: str) -> None:
        if self.bed.tls and not self.user:
            self.say("530 5.7.0 log in first")
            return
        self.sender = said[said.index("<") + 1 : said.index(">")]
        self.say("250 ok")

    def on_rcpt(self, said: str) -> None:
        if self.bed.refuse:
            self.say(self.bed.refuse)
            return
        self.to.append(said[said.index("<") + 1 : said.index(">")])
        self.say("250 ok")

    def on_data(self, said: str) -> None:
        self.say("354 go on")
        lines = []
        while True:
            line = self.hear()
            if line == ".":
                break
            lines.append(line[1:] if line.startswith(".") else line)
        self.bed.letters.append(Letter(self.sender, tuple(self.to), "\n".join(lines), self.private, self.user))
        self.say("250 taken")

    def on_other(self, said: str) -> None:
        self.say("250 ok")
