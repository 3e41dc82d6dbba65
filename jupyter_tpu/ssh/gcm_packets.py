"""AES-GCM packets of asyncssh's connections with fewer copies and calls, for bulk data.

asyncssh copies each packet a dozen times, makes a cipher object for it, formats a line for its log,
and sends an empty packet before it (that protects CBC ciphers from chosen plain text; GCM does not
chain blocks). So a download takes three times OpenSSH's CPU time. Here packets of data and of
windows take a short way, many at a time, and all others asyncssh's own. `asyncssh_internals` lists
what this uses of asyncssh; with another one than that list describes, all packets take asyncssh's
way.
"""

from __future__ import annotations

import asyncio
import os
import time
from struct import Struct
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from asyncssh import DisconnectError, MACError, ProtocolError
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .asyncssh_internals import CHANNEL, CIPHER, CONNECTION, ENCRYPTION, usable

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

#: Kinds of packets: RFC 4253 section 12, RFC 4254 section 9.
MSG_IGNORE, MSG_WINDOW_ADJUST, MSG_CHANNEL_DATA = 2, 93, 94
#: States of a channel in which they may come.
_STATES = {MSG_WINDOW_ADJUST: ("open", "eof_pending", "eof"), MSG_CHANNEL_DATA: ("open",)}
#: Before the data of a packet: bytes of padding, kind, channel, bytes of data; for a window, the
#: bytes that it grows by.
_HEAD = Struct(">BBII")
_LENGTH = Struct(">I")
_TAG_BYTES = 16
_BLOCK_BYTES, _LEAST_PADDING = 16, 4
#: Bytes that are read, and of data that are sent, at a time.
_READ_BYTES = _SENT_BYTES = 256 << 10
#: Bytes of a packet that is not whole yet; a longer one is asyncssh's.
_MOST_WAITING = 40 << 10
#: Seconds in which the timer for silence is not set anew.
_RESET_SECONDS = 0.1


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

    def open(self, header: memoryview, sealed: memoryview, room: memoryview) -> None:
        """Decrypts a packet into *room*. Raises InvalidTag."""
        self._aes.decrypt_into(self._nonce(), sealed, header, room)

    def seal(self, header: memoryview, packet: memoryview, room: memoryview) -> None:
        """Encrypts a packet into *room*, its tag at the end."""
        self._aes.encrypt_into(self._nonce(), packet, header, room)

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


class _Room:
    """Memory for packets that are being read, or sent; nothing stays in it.

    So the connections of a loop share one, and those without a socket another: through a jump host,
    theirs are read and sent while a packet of the jump host is.

    received: what the system has given, behind the place for what waited.
    opened: decrypted packets, one over the end of the other.
    packet: one that is not encrypted yet.
    sealed: encrypted packets. The transport keeps what it could not send.
    """

    def __init__(self) -> None:
        self.received = self.opened = self.packet = self.sealed = memoryview(b"")


#: The two of each loop: for connections without and with a socket.
_rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[_Room, _Room]] = WeakKeyDictionary()


def _has_socket(ssh: Any) -> bool:
    """Whether the connection is one of the system's: no jump host's channel, and no program's."""
    return isinstance(ssh._transport, asyncio.Transport)


def speed_up(ssh: SSHClientConnection) -> None:
    """Gives a connection the short way, if it uses AES-GCM both ways. Call it once, before it has
    channels.
    """
    if (
        hasattr(AESGCM, "decrypt_into")  # cryptography 47
        and usable("packets", CONNECTION, ssh)
        and _cipher(ssh._send_encryption) is not None
        and _cipher(ssh._recv_encryption) is not None
    ):
        rooms = _rooms.setdefault(asyncio.get_running_loop(), (_Room(), _Room()))
        room = rooms[_has_socket(ssh)]
        reader = _Reader(ssh, room)
        ssh._recv_data = reader.read  # type: ignore[method-assign]
        if _has_socket(ssh):
            ssh._transport.set_protocol(reader)  # type: ignore[union-attr]
        _Sender(ssh, room)


class _Sender:
    """Sends the data of a connection's channels: many packets at a time, from one buffer."""

    def __init__(self, ssh: SSHClientConnection, room: _Room) -> None:
        self._ssh: Any = ssh
        self._room = room
        self._send_packet = ssh.send_packet
        self._add_channel, self._remove_channel = ssh.add_channel, ssh.remove_channel
        ssh.send_packet = self._send  # type: ignore[method-assign, assignment]
        ssh.add_channel = self._add  # type: ignore[method-assign, assignment]
        ssh.remove_channel = self._remove  # type: ignore[method-assign, assignment]

    def _send(self, kind: int, *parts: bytes, handler: Any = None) -> None:
        """In place of asyncssh's `send_packet`."""
        if kind != MSG_IGNORE:
            _cipher(self._ssh._send_encryption)  # the keys may be new
            self._send_packet(kind, *parts, handler=handler)

    def _add(self, channel: Any) -> int:
        """In place of asyncssh's `add_channel`."""
        if usable("packets", CHANNEL, channel):
            write, flush = channel.write, channel._flush_send_buf

            def write_data(data: Any, datatype: int | None = None) -> None:
                open = channel._send_state == "open"
                if open and not (datatype or channel._send_buf or channel.get_encoding()[0]):
                    data = memoryview(data)
                    data = data[self._send_data(channel, data) :]
                if data:
                    write(data, datatype)

            def flush_send_buf() -> None:
                buffers = channel._send_buf
                while buffers and buffers[0][1] is None:
                    data = buffers[0][0]
                    with memoryview(data) as view:
                        sent = self._send_data(channel, view)
                    channel._send_buf_len -= sent
                    if sent < len(data):
                        del data[:sent]
                        break
                    del buffers[0]
                flush()  # what is left, and what is to be done when nothing is

            channel.write, channel._flush_send_buf = write_data, flush_send_buf
        return self._add_channel(channel)

    def _remove(self, number: int) -> None:
        """In place of asyncssh's `remove_channel`: the channel is freed at once."""
        fields = vars(self._ssh._channels.get(number, self))
        for name in ("write", "_flush_send_buf"):
            fields.pop(name, None)
        self._remove_channel(number)

    def _send_data(self, channel: Any, data: memoryview) -> int:
        """Sends as much of *data* as the window allows; returns how many bytes that were, 0 if
        asyncssh should: it keeps what has to wait for new keys.
        """
        ssh = self._ssh
        size = min(len(data), channel._send_window)
        if (
            not size
            or channel._send_chan is None
            or ssh._compressor
            or not ssh._kex_complete
            or ssh._rekey_bytes_sent >= ssh._rekey_bytes
            or (ssh._rekey_seconds and time.monotonic() >= ssh._rekey_time)
        ):
            return 0
        cipher = _cipher(ssh._send_encryption)
        if cipher is None:
            return 0
        for begin in range(0, size, _SENT_BYTES):
            part = data[begin : min(begin + _SENT_BYTES, size)]
            sealed = self._packets(cipher, channel._send_chan, channel._send_pktsize, part)
            if not self._is_idle() and len(sealed) < len(self._room.sealed) // 2:
                ssh._send(bytes(sealed))  # the transport will keep it, and nothing else
                continue
            ssh._send(sealed)
            if not self._is_idle():
                self._room.sealed = memoryview(b"")  # the transport keeps it
        channel._send_window -= size
        return size

    def _is_idle(self) -> bool:
        """Whether the system takes what is sent now."""
        transport: Any = self._ssh._transport
        return _has_socket(self._ssh) and transport.get_write_buffer_size() == 0

    def _packets(self, cipher: _Cipher, channel: int, most: int, data: memoryview) -> memoryview:
        """Packets of *data*, with *most* bytes of it at most in each."""
        size = len(data)
        whole, last = divmod(size, most)
        needed = whole * _sealed_bytes(most) + (_sealed_bytes(last) if last else 0)
        room = self._room
        if len(room.sealed) < needed:
            room.sealed = memoryview(bytearray(needed))
        if len(room.packet) < (longest := _packet_bytes(min(most, size))):
            room.packet = memoryview(bytearray(longest))
        packet, sealed, end = room.packet, room.sealed, 0
        noise = os.urandom(_BLOCK_BYTES + _LEAST_PADDING)
        for begin in range(0, size, most):
            part = min(most, size - begin)
            filled, length = _HEAD.size + part, _packet_bytes(part)
            _HEAD.pack_into(packet, 0, length - filled, MSG_CHANNEL_DATA, channel, part)
            packet[_HEAD.size : filled] = data[begin : begin + part]
            packet[filled:length] = noise[: length - filled]
            start, body = end, end + _LENGTH.size
            end = body + length + _TAG_BYTES
            _LENGTH.pack_into(sealed, start, length)
            cipher.seal(sealed[start:body], packet[:length], sealed[body:end])
        self._ssh._send_seq = (self._ssh._send_seq + whole + (last > 0)) & 0xFFFFFFFF
        self._ssh._rekey_bytes_sent += end
        return sealed[:end]


def _packet_bytes(data: int) -> int:
    """How long a packet with so many bytes of data is, with its padding."""
    filled = _HEAD.size + data + _LEAST_PADDING
    return filled + -filled % _BLOCK_BYTES


def _sealed_bytes(data: int) -> int:
    return _LENGTH.size + _packet_bytes(data) + _TAG_BYTES


class _Reader(asyncio.BufferedProtocol):
    """Reads what a connection receives: into one buffer, and the data of many packets into another.

    What is not read yet is always in asyncssh's `_inpbuf`, which goes on with it after packets that
    take time.
    """

    def __init__(self, ssh: SSHClientConnection, room: _Room) -> None:
        self._ssh: Any = ssh
        self._room = room
        self._channel: Any = None  # whose data are decrypted, from `_begin` to `_end`
        self._begin = self._end = _HEAD.size
        self._next_reset = 0.0

    # ---- the transport's side ----

    def get_buffer(self, sizehint: int) -> memoryview:
        if not self._room.received:
            self._room.received = memoryview(bytearray(_MOST_WAITING + _READ_BYTES))
        return self._room.received[_MOST_WAITING:]

    def buffer_updated(self, nbytes: int) -> None:
        received, waiting, end = self._room.received, self._ssh._inpbuf, _MOST_WAITING + nbytes
        if len(waiting) > _MOST_WAITING:
            return self._ssh.data_received(bytes(received[_MOST_WAITING:end]))
        begin = _MOST_WAITING - len(waiting)
        received[begin:_MOST_WAITING] = waiting
        self._read(received[begin:end])

    def eof_received(self) -> None:
        self._ssh.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ssh.connection_lost(exc)

    def pause_writing(self) -> None:
        self._ssh.pause_writing()

    def resume_writing(self) -> None:
        self._ssh.resume_writing()

    # ---- packets ----

    def read(self) -> None:
        """In place of asyncssh's `_recv_data`."""
        self._read(memoryview(self._ssh._inpbuf))

    def _read(self, received: memoryview) -> None:
        """Reads all whole packets; the rest is then in `_inpbuf`. It ends as asyncssh's does."""
        ssh = self._ssh
        now = time.monotonic()
        if now > self._next_reset:
            self._next_reset = now + _RESET_SECONDS
            ssh._reset_keepalive_timer()
        try:
            more = True
            while more:
                cipher = self._own_cipher()
                if cipher is None:
                    ssh._inpbuf = bytes(received)
                    while more and self._own_cipher() is None:
                        more = bool(ssh._inpbuf) and ssh._recv_handler()
                    received = memoryview(ssh._inpbuf)
                else:
                    read, more = self._packets(cipher, received)
                    received = received[read:]
                    ssh._inpbuf = b"" if more else bytes(received)
        except DisconnectError as error:
            ssh._send_disconnect(error.code, error.reason, error.lang)
            ssh._force_close(error)
        except Exception:
            ssh.internal_error()

    def _own_cipher(self) -> _Cipher | None:
        """None: the next bytes are asyncssh's, which waits for something, is in the middle of a
        packet, or changes its keys.
        """
        ssh = self._ssh
        if ssh._recv_handler != ssh._recv_pkthdr or ssh._decompressor:
            return None
        return _cipher(ssh._recv_encryption)

    def _packets(self, cipher: _Cipher, received: memoryview) -> tuple[int, bool]:
        """Reads packets, up to and with one that is asyncssh's. Returns how many bytes that were,
        and whether more of them may be whole packets.
        """
        ssh = self._ssh
        start, size = 0, len(received)
        try:
            while size - start > ssh._recv_blocksize and ssh._transport is not None:
                (length,) = _LENGTH.unpack_from(received, start)
                if length > ssh._max_recv_pktlen:
                    raise ProtocolError("Max packet size exceeded")
                body = start + _LENGTH.size
                after = body + length + _TAG_BYTES
                if after > size:
                    break
                packet = self._open(cipher, received[start:body], received[body:after], length)
                if packet is not None:
                    self._deliver()
                    first = start + ssh._recv_blocksize
                    ssh._packet, ssh._pktlen = bytes(received[start:first]), length
                    ssh._inpbuf, cipher.opened = bytes(received[first:after]), packet
                    return after, ssh._recv_packet()
                ssh._recv_seq = (ssh._recv_seq + 1) & 0xFFFFFFFF
                start = after
        finally:
            self._deliver()
        return start, False

    def _open(
        self, cipher: _Cipher, header: memoryview, sealed: memoryview, length: int
    ) -> bytes | None:
        """Decrypts a packet, and does what it says; returns it if asyncssh has to do that.

        Its data come behind those that were decrypted before. So what precedes them in the packet
        is, for a moment, in the place of the last bytes of those.
        """
        start = self._end - _HEAD.size
        if start + length > len(self._room.opened):
            self._deliver()
            start = 0
            if length > len(self._room.opened):
                size = max(length, _MOST_WAITING + _READ_BYTES)
                self._room.opened = memoryview(bytearray(size))
        opened = self._room.opened
        before = bytes(opened[start : self._end])
        try:
            cipher.open(header, sealed, opened[start : start + length])
            padding, kind, number, count = _HEAD.unpack_from(opened, start)
            channel = self._ssh._channels.get(number)
            if (
                channel is None
                or length != _HEAD.size + padding + (count if kind == MSG_CHANNEL_DATA else 0)
                or not (channel is self._channel or usable("packets", CHANNEL, channel))
                or channel._recv_state not in _STATES.get(kind, ())
            ):
                return bytes(opened[start : start + length])
        except InvalidTag:
            raise MACError("MAC verification failed") from None
        finally:
            opened[start : self._end] = before
        if kind == MSG_WINDOW_ADJUST:
            channel._send_window += count
            if channel._send_buf:
                self._deliver()  # what came before: the channel may be closed now
            channel._flush_send_buf()
            return None
        if channel is not self._channel:
            place = self._end
            self._deliver()
            self._channel, self._begin, self._end = channel, place, place
        if self._end - self._begin + count > channel._recv_window:
            raise ProtocolError("Window exceeded")
        self._end += count
        return None

    def _deliver(self) -> None:
        """Hands the data that were decrypted to their channel."""
        channel, self._channel = self._channel, None
        data, self._end = self._room.opened[self._begin : self._end], _HEAD.size
        if channel is not None:
            channel._accept_data(bytes(data))
