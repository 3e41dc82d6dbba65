"""AES-GCM packets of asyncssh's connections with fewer copies, for bulk data.

asyncssh copies each packet a dozen times, makes a cipher object for it, and sends an empty packet
before it (that protects CBC ciphers from chosen plain text; GCM does not chain blocks). So a
download takes three times OpenSSH's CPU time. Here data packets take a short way, and all others
asyncssh's own. `asyncssh_internals` lists what this uses of asyncssh; with another one than that
list describes, all packets take asyncssh's way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from asyncssh import DisconnectError, MACError, ProtocolError
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .asyncssh_internals import CHANNEL, CIPHER, CONNECTION, ENCRYPTION, usable

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

#: Kinds of packets: RFC 4253 section 12, RFC 4254 section 9.
MSG_IGNORE, MSG_CHANNEL_DATA = 2, 94
_TAG_BYTES = 16


class _Cipher:
    """GCM with its cipher object made once.

    opened: a packet that is decrypted already, for asyncssh, which asks for it next.
    """

    def __init__(self, cipher: Any) -> None:
        self._aes = AESGCM(cipher._key)
        self._prefix = cipher._iv[:4]
        self._counter = int.from_bytes(cipher._iv[4:], "big")
        self.opened: bytes | None = None

    def _nonce(self) -> bytes:
        nonce = self._prefix + self._counter.to_bytes(8, "big")
        self._counter = (self._counter + 1) & 0xFFFFFFFFFFFFFFFF
        return nonce

    def open(self, header: memoryview, sealed: memoryview) -> bytes:
        """A packet, decrypted. Raises MACError."""
        try:
            return self._aes.decrypt(self._nonce(), sealed, header)
        except InvalidTag:
            raise MACError("MAC verification failed") from None

    def encrypt_and_sign(self, header: bytes, data: bytes) -> tuple[bytes, bytes]:
        # asyncssh joins the parts: an empty tag saves two copies.
        return b"".join((header, self._aes.encrypt(self._nonce(), data, header))), b""

    def verify_and_decrypt(self, header: bytes, data: bytes, mac: bytes) -> bytes | None:
        opened, self.opened = self.opened, None
        if opened is not None:
            return opened
        try:
            return self._aes.decrypt(self._nonce(), data + mac, header)
        except InvalidTag:
            return None


def _cipher(encryption: Any) -> _Cipher | None:
    """The cipher of one direction, which asyncssh renews with the keys; None if it is not GCM, or
    has not the parts that this needs.
    """
    if type(encryption).__name__ != "GCMEncryption":
        return None
    if not usable("packets", ENCRYPTION, encryption):
        return None
    if type(encryption._cipher) is not _Cipher:
        if not usable("packets", CIPHER, encryption._cipher):
            return None
        encryption._cipher = _Cipher(encryption._cipher)
    return encryption._cipher


def speed_up(ssh: SSHClientConnection) -> None:
    """Gives a connection the short way, if it uses AES-GCM both ways. Call it once."""
    if (
        usable("packets", CONNECTION, ssh)
        and _cipher(ssh._send_encryption) is not None
        and _cipher(ssh._recv_encryption) is not None
    ):
        ssh._recv_data = _Reader(ssh).read  # type: ignore[method-assign]
        ssh.send_packet = _sender(ssh)  # type: ignore[method-assign]


def _sender(ssh: SSHClientConnection) -> Callable[..., None]:
    send = ssh.send_packet

    def send_packet(kind: int, *parts: bytes, handler: Any = None) -> None:
        if kind != MSG_IGNORE:
            _cipher(ssh._send_encryption)  # the keys may be new
            send(kind, *parts, handler=handler)

    return send_packet


class _Reader:
    """Reads what a connection has received."""

    def __init__(self, ssh: SSHClientConnection) -> None:
        self._ssh: Any = ssh

    def read(self) -> None:
        """In place of asyncssh's `_recv_data`, with the same ends."""
        ssh = self._ssh
        ssh._reset_keepalive_timer()
        try:
            while ssh._inpbuf:
                # asyncssh waits for something, is in the middle of a packet, or changes its keys.
                foreign = ssh._recv_handler != ssh._recv_pkthdr or ssh._decompressor
                cipher = None if foreign else _cipher(ssh._recv_encryption)
                more = ssh._recv_handler() if cipher is None else self._packets(cipher)
                if not more:
                    break
        except DisconnectError as error:
            ssh._send_disconnect(error.code, error.reason, error.lang)
            ssh._force_close(error)
        except Exception:
            ssh.internal_error()

    def _packets(self, cipher: _Cipher) -> bool:
        """Reads packets up to one that is not data; False if there is no whole packet."""
        ssh = self._ssh
        received, ssh._inpbuf = ssh._inpbuf, b""
        view, start, size = memoryview(received), 0, len(received)
        while size - start > ssh._recv_blocksize:
            length = int.from_bytes(view[start : start + 4], "big")
            if length > ssh._max_recv_pktlen:
                raise ProtocolError("Max packet size exceeded")
            body, end = start + 4, start + 4 + length + _TAG_BYTES
            if end > size:
                break
            packet = cipher.open(view[start:body], view[body:end])
            if not self._data(packet):
                first = start + ssh._recv_blocksize
                ssh._inpbuf, ssh._packet = received[first:], received[start:first]
                ssh._pktlen, cipher.opened = length, packet
                return ssh._recv_packet()
            if ssh._transport is None:
                return False
            start = end
        ssh._inpbuf = received[start:]
        return False

    def _data(self, packet: bytes) -> bool:
        """Hands a packet of data to its channel; False if it is another packet, or wrong."""
        if packet[1] != MSG_CHANNEL_DATA:
            return False
        ssh = self._ssh
        channel = ssh._channels.get(int.from_bytes(packet[2:6], "big"))
        length = int.from_bytes(packet[6:10], "big")
        if (
            channel is None
            or not usable("packets", CHANNEL, channel)
            or channel._recv_state != "open"
            or length > channel._recv_window
            or 10 + length + packet[0] != len(packet)
        ):
            return False
        ssh._recv_seq = (ssh._recv_seq + 1) & 0xFFFFFFFF
        channel._accept_data(packet[10 : 10 + length])
        return True
