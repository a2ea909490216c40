/** Columns whose values have a fixed width, gathered for a batch. Values that are missing are written as zeros: a vector may hold anything there. */
import type { SqlVector } from '../sql-result/index.ts'
import { type BatchParts, Presence, packBits } from './body.ts'

export interface ColumnWriter {
  /** Bytes that rows [from, to) will take, about. */
  size(vector: SqlVector, from: number, to: number): number
  append(vector: SqlVector, from: number, to: number): void
  /** Lays the batch out. The buffers are valid until the next `append`. */
  finish(parts: BatchParts): void
  /** Begins the next batch. */
  reset(): void
}

/** One byte a row of the vector, or undefined when no row lacks a value: told by its validity, or by null among plain values. */
export function presentRows({ values, validity }: SqlVector, from: number, to: number): Uint8Array | undefined {
  if (validity !== undefined || ArrayBuffer.isView(values)) return validity
  let present: Uint8Array | undefined
  for (let i = from; i < to; i++) {
    if (values[i] !== null && values[i] !== undefined) continue
    present ??= new Uint8Array(to).fill(1)
    present[i] = 0
  }
  return present
}

/** Bytes gathered in one growing buffer. */
export class Gathered {
  bytes: Uint8Array<ArrayBuffer> = new Uint8Array(0)

  /** Room for `length` bytes in all; what is there stays. */
  room(length: number): Uint8Array<ArrayBuffer> {
    if (length > this.bytes.length) {
      const grown = new Uint8Array(Math.ceil(Math.max(length, 2 * this.bytes.length, 4096) / 16) * 16)
      grown.set(this.bytes)
      this.bytes = grown
    }
    return this.bytes
  }
}

/** Writes one value that is present at a byte offset. */
export type Put = (view: DataView, at: number, value: unknown) => void

export class FixedWriter implements ColumnWriter {
  private readonly width: number
  private readonly put: Put
  private readonly presence = new Presence()
  private readonly data = new Gathered()
  private rows = 0

  /** @param put for values that are no typed array. */
  constructor(width: number, put: Put) {
    this.width = width
    this.put = put
  }

  size(_: SqlVector, from: number, to: number): number {
    return (to - from) * this.width
  }

  append(vector: SqlVector, from: number, to: number): void {
    const { width, rows } = this
    const { values } = vector
    const present = presentRows(vector, from, to)
    const end = rows + to - from
    const bytes = this.data.room(end * width)
    if (ArrayBuffer.isView(values)) {
      bytes.set(new Uint8Array(values.buffer, values.byteOffset + from * width, (to - from) * width), rows * width)
      if (present !== undefined) for (let i = from; i < to; i++) if (present[i] === 0) clear(bytes, (rows + i - from) * width, width)
    } else {
      const view = new DataView(bytes.buffer)
      for (let i = from, at = rows * width; i < to; i++, at += width) {
        if (present !== undefined && present[i] === 0) clear(bytes, at, width)
        else this.put(view, at, values[i])
      }
    }
    this.presence.append(present, from, to - from)
    this.rows = end
  }

  finish(parts: BatchParts): void {
    this.presence.finish(parts)
    parts.buffer(this.data.bytes.subarray(0, this.rows * this.width))
  }

  reset(): void {
    this.presence.reset()
    this.rows = 0
  }
}

// Not fill: its call costs more than the few bytes of a value.
function clear(bytes: Uint8Array, at: number, width: number): void {
  for (let i = 0; i < width; i++) bytes[at + i] = 0
}

/** Values are 0 and 1, or booleans. */
export class BoolWriter implements ColumnWriter {
  private readonly presence = new Presence()
  private readonly data = new Gathered()
  private rows = 0

  size(_: SqlVector, from: number, to: number): number {
    return (to - from) / 8
  }

  append(vector: SqlVector, from: number, to: number): void {
    const { values } = vector
    const present = presentRows(vector, from, to)
    const bytes = this.data.room(this.rows + to - from)
    for (let i = from, at = this.rows; i < to; i++) bytes[at++] = (present === undefined || present[i] === 1) && values[i] ? 1 : 0
    this.presence.append(present, from, to - from)
    this.rows += to - from
  }

  finish(parts: BatchParts): void {
    this.presence.finish(parts)
    parts.buffer(packBits(this.data.bytes, this.rows))
  }

  reset(): void {
    this.presence.reset()
    this.rows = 0
  }
}

export class NullWriter implements ColumnWriter {
  private rows = 0

  size(): number {
    return 0
  }

  append(_: SqlVector, from: number, to: number): void {
    this.rows += to - from
  }

  finish(parts: BatchParts): void {
    parts.node(this.rows, this.rows)
  }

  reset(): void {
    this.rows = 0
  }
}
