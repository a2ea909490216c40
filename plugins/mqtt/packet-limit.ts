/**
 * Bounds the packets of a connection before they are put together: the package `mqtt` gathers as many bytes as a packet says it has, up to 256 MiB. Only the
 * first byte and the length of each are looked at (MQTT 3.1.1, 2.2; MQTT 5, 2.1), and where the properties are of one that is cut.
 *
 * A message that is too large is cut short, so that it can be acknowledged: one that is refused by ending the connection would come again with the next one, and
 * nothing behind it ever. Properties that do not fit are no longer any then: they begin its payload. Other packets have no reason to be large.
 */
const PUBLISH = 3
const QOS = 0b110
const MAX_LENGTH_BYTES = 4
const NUMBER_BYTES = 2
/** Of the longest topic, and an identifier. */
const HEAD = 65_539
const NO_PROPERTIES = Buffer.alloc(1)

export class PacketLimit {
  /** Bytes behind the length that a packet may have. */
  private readonly most: number
  private readonly maxPayload: number
  private readonly five: boolean
  /** Lengths of the messages that were cut and are not yet asked for. */
  private readonly lengths: number[] = []
  private pass = 0
  /** What is to be passed from the properties on, of a message that is cut. */
  private cut = 0
  private drop = 0
  /** The beginning of a packet or of properties whose length has not come whole. */
  private partial: Buffer = Buffer.alloc(0)

  /** @param maxPayload of a message. @param five whether messages have properties, as in version 5. */
  constructor(maxPayload: number, five = false) {
    this.maxPayload = maxPayload
    this.five = five
    this.most = maxPayload + HEAD
  }

  /** @returns what is left of the bytes. @throws Error for a packet that nothing can be done about. */
  filter(chunk: Buffer): Buffer {
    const bytes = this.partial.length === 0 ? chunk : Buffer.concat([this.partial, chunk])
    this.partial = Buffer.alloc(0)
    const parts: Buffer[] = []
    let start = 0
    let at = 0
    while (at < bytes.length) {
      if (this.pass > 0) {
        const taken = Math.min(this.pass, bytes.length - at)
        this.pass -= taken
        at += taken
      } else if (this.cut > 0) {
        const end = endOfLength(bytes, at)
        if (end > bytes.length && end - at <= MAX_LENGTH_BYTES) return this.wait(bytes, start, at, parts)
        this.pass = this.cut
        this.cut = 0
        if (end - at > MAX_LENGTH_BYTES || end - at + lengthAt(bytes, at, end) > this.pass) {
          parts.push(bytes.subarray(start, at), NO_PROPERTIES)
          start = at
          this.pass--
          this.drop++
        }
      } else if (this.drop > 0) {
        parts.push(bytes.subarray(start, at))
        const left = Math.min(this.drop, bytes.length - at)
        this.drop -= left
        start = at += left
      } else {
        const end = endOfLength(bytes, at + 1)
        if (end - at - 1 > MAX_LENGTH_BYTES) throw new Error('cannot read what the broker has sent: a packet says its length in more than four bytes')
        if (end > bytes.length) return this.wait(bytes, start, at, parts)
        const length = lengthAt(bytes, at + 1, end)
        if (length > this.most) {
          if (bytes[at] >> 4 !== PUBLISH)
            throw new Error(`cannot take a packet of ${length} bytes from the broker: by mqtt.max_message_bytes at most ${this.most} are expected`)
          if (this.five && end + NUMBER_BYTES > bytes.length) return this.wait(bytes, start, at, parts)
          this.lengths.push(length)
          parts.push(bytes.subarray(start, at), headOf(bytes[at], this.most + 1))
          start = end
          this.pass = this.most + 1
          this.drop = length - this.pass
          if (this.five) {
            this.pass = NUMBER_BYTES + bytes.readUInt16BE(end) + ((bytes[at] & QOS) === 0 ? 0 : NUMBER_BYTES)
            this.cut = this.most + 1 - this.pass
          }
        } else this.pass = length
        at = end
      }
    }
    if (parts.length === 0) return bytes
    parts.push(bytes.subarray(start, at))
    return joined(parts)
  }

  /** @returns what was read before `at`: the rest is not whole. */
  private wait(bytes: Buffer, start: number, at: number, parts: Buffer[]): Buffer {
    parts.push(bytes.subarray(start, at))
    this.partial = Buffer.from(bytes.subarray(at))
    return joined(parts)
  }

  /** How long the payload of a message was, which has come with `length` bytes behind its length: of one that was cut more than may be. Ask once, in order. */
  payloadOf(length: number, payload: number): number {
    if (length !== this.most + 1) return payload
    // Properties may have taken the room of the payload.
    return Math.max(payload + (this.lengths.shift() ?? length) - length, this.maxPayload + 1)
  }
}

/** @returns the index behind a length, which is beyond the bytes where it has not come whole, and more than four further where it is none. */
function endOfLength(bytes: Buffer, at: number): number {
  let last = at
  while (last < bytes.length && last - at < MAX_LENGTH_BYTES && bytes[last] > 127) last++
  return last + 1
}

function lengthAt(bytes: Buffer, at: number, end: number): number {
  let length = 0
  for (let i = end - 1; i >= at; i--) length = length * 128 + (bytes[i] & 127)
  return length
}

const joined = (parts: readonly Buffer[]): Buffer => (parts.length === 1 ? parts[0] : Buffer.concat(parts))

function headOf(first: number, length: number): Buffer {
  const bytes = [first]
  let rest = length
  do {
    bytes.push(rest > 127 ? (rest % 128) | 128 : rest)
    rest = Math.floor(rest / 128)
  } while (rest > 0)
  return Buffer.from(bytes)
}
