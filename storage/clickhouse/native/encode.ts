/** Blocks of ClickHouse's format Native: columns one after the other, each with its name and type. */

/** A column of a block: its values as they go over the wire. */
export interface WireColumn {
  name: string
  type: string
  /** Of Nullable: a byte a row, 1 = NULL. */
  nulls?: Uint8Array
  data: Uint8Array
}

const encoder = new TextEncoder()

export function encodeBlock(columns: readonly WireColumn[], rows: number): Uint8Array[] {
  const parts: Uint8Array[] = [varint(columns.length), varint(rows)]
  for (const { name, type, nulls, data } of columns) {
    parts.push(text(name), text(type))
    if (nulls !== undefined) parts.push(nulls)
    parts.push(data)
  }
  return parts
}

function varint(value: number): Uint8Array {
  const bytes: number[] = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Uint8Array.from([...bytes, rest])
    bytes.push((rest % 128) | 128)
  }
}

function text(value: string): Uint8Array {
  const bytes = encoder.encode(value)
  return Buffer.concat([varint(bytes.length), bytes])
}

/** Values of type String, one after the other. */
export function strings(values: readonly string[]): Uint8Array {
  return Buffer.concat(values.map(text))
}

/** Values of type UInt64. */
export function uint64s(values: readonly (number | bigint)[]): Uint8Array {
  return bytesOf(BigUint64Array.from(values, BigInt))
}

/** Values of type Int64. */
export function int64s(values: readonly (number | bigint)[]): Uint8Array {
  return bytesOf(BigInt64Array.from(values, BigInt))
}

/** Values of type Map(String, String): where each ends, all keys, all values. @param maps key, value, key, value ... of each. */
export function maps(maps: readonly (readonly string[])[]): Uint8Array {
  let pairs = 0
  const ends = maps.map((map) => (pairs += map.length / 2))
  const halves = (odd: number) => maps.flatMap((map) => map.filter((_, i) => i % 2 === odd))
  return Buffer.concat([uint64s(ends), strings(halves(0)), strings(halves(1))])
}

export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}
