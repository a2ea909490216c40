/** Messages as they lie in an IPC stream: continuation marker, length of the header, header, body; all in steps of 8 bytes. */

/** A message of Arrow's format: the flatbuffer, and the buffers it describes. */
export interface ArrowMessage {
  header: Uint8Array
  body: Uint8Array
  /** With `EncoderOptions.prefix`: prefix and body as one run of bytes, in an ArrayBuffer of its own that may be transferred. `body` is a view of it. */
  framed?: Uint8Array<ArrayBuffer>
}

/** What stands before a body where messages are sent. */
export type MessagePrefix = (header: Uint8Array, bodyLength: number) => Uint8Array

const CONTINUATION = 0xffffffff
const PREFIX = 8

/** The end of a stream. */
export const END_OF_STREAM: Uint8Array = new Uint8Array([255, 255, 255, 255, 0, 0, 0, 0])

/** What an IPC stream has before a body. */
export const streamPrefix: MessagePrefix = (header) => {
  const length = (header.length + 7) & ~7
  const bytes = new Uint8Array(PREFIX + length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, CONTINUATION, true)
  view.setInt32(4, length, true)
  bytes.set(header, PREFIX)
  return bytes
}

/** A message as bytes of an IPC stream. */
export function frame(message: ArrowMessage, prefix: MessagePrefix = streamPrefix): Uint8Array<ArrayBuffer> {
  const front = prefix(message.header, message.body.length)
  const bytes = new Uint8Array(front.length + message.body.length)
  bytes.set(front)
  bytes.set(message.body, front.length)
  return bytes
}
