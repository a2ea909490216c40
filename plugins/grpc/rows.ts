/** Rows as messages: a QueryRow for each, with the fields that are present. */
import type { ColumnChunk, SeriesChunk } from 'svcdb'
import { storedHistogramJson } from 'svcdb/lib/histogram'
import { decimalText } from 'svcdb/lib/numbers'
import { ProtobufWriter } from 'svcdb/lib/protobuf'

/** Writes one value as a FieldValue. */
type WriteValue = (writer: ProtobufWriter, row: number) => void

interface FieldColumn {
  /** `Field.key`, encoded. */
  key: Uint8Array
  validity: Uint8Array | undefined
  write: WriteValue
}

export class RowEncoder {
  readonly writer = new ProtobufWriter(1 << 16)
  private chunk: SeriesChunk | undefined
  private columns: FieldColumn[] = []
  private times = new Int32Array(0)
  /** Encoded tags of each series. */
  private readonly tags = new Map<number, Uint8Array>()
  private readonly keys = new Map<string, Uint8Array>()
  private readonly part = new ProtobufWriter()

  /** Appends `QueryResponse.rows`. */
  row(chunk: SeriesChunk, index: number): void {
    const { writer } = this
    if (chunk !== this.chunk) this.open(chunk)
    const mark = writer.open(1)
    writer.int64(1, this.times[index * 2], this.times[index * 2 + 1])
    writer.append(this.tags.get(chunk.series) as Uint8Array)
    for (const { key, validity, write } of this.columns) {
      if (validity !== undefined && validity[index] !== 1) continue
      const field = writer.open(3)
      writer.append(key)
      const value = writer.open(2)
      write(writer, index)
      writer.close(value)
      writer.close(field)
    }
    writer.close(mark)
  }

  private open(chunk: SeriesChunk): void {
    this.chunk = chunk
    this.times = halves(chunk.times)
    this.columns = chunk.columns.map((column) => ({ key: this.key(column.name), validity: column.validity, write: writerOf(column) }))
    if (!this.tags.has(chunk.series)) this.tags.set(chunk.series, this.encodedTags(chunk.tags))
  }

  private key(name: string): Uint8Array {
    let key = this.keys.get(name)
    if (key === undefined) {
      this.part.string(1, name)
      this.keys.set(name, (key = this.part.take()))
    }
    return key
  }

  private encodedTags(tags: Record<string, string>): Uint8Array {
    for (const key in tags) {
      const mark = this.part.open(2)
      this.part.string(1, key)
      this.part.string(2, tags[key])
      this.part.close(mark)
    }
    return this.part.take()
  }
}

function halves(values: BigInt64Array | BigUint64Array): Int32Array<ArrayBuffer> {
  return new Int32Array(values.buffer as ArrayBuffer, values.byteOffset, values.length * 2)
}

function writerOf({ type, values, scale }: ColumnChunk): WriteValue {
  switch (type) {
    case 'float64': {
      const doubles = values as Float64Array
      return (writer, row) => writer.double(1, doubles[row])
    }
    case 'int64':
    case 'uint64': {
      const bits = halves(values as BigInt64Array)
      const field = type === 'int64' ? 2 : 3
      return (writer, row) => writer.int64(field, bits[row * 2], bits[row * 2 + 1])
    }
    case 'bool':
      return (writer, row) => writer.int(4, values[row] === 1 ? 1 : 0)
    case 'string':
      return (writer, row) => writer.string(5, values[row] as string)
    case 'decimal':
      return (writer, row) => writer.string(6, decimalText(values[row] as bigint, scale ?? 0))
    case 'histogram':
      return (writer, row) => writer.string(7, histogramText(values[row] as unknown as Uint8Array))
  }
}

/** Bytes of another version than this server knows are left to the reader. */
export function histogramText(bytes: Uint8Array): string {
  try {
    return storedHistogramJson(bytes)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return JSON.stringify(Buffer.from(bytes).toString('base64'))
  }
}
