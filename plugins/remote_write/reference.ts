/** The decoder's oracle for tests: both messages read field by field into objects, with BigInts and no shortcuts. Floats only. */

export interface ReferencePoint {
  position: number
  metric: string
  /** That of a staleness marker before any sample of its metric is another. */
  field: string
  tags: Record<string, string>
  /** Nanoseconds. */
  time: bigint
  bits: bigint
}

export interface ReferenceResult {
  points: ReferencePoint[]
  refused: number
}

interface Field {
  number: number
  wire: number
  value: bigint
  bytes: Uint8Array
}

const NOTHING: Uint8Array = new Uint8Array(0)
const MAX_MS = 9223372036854n
const EXPONENT = 0x7ff0000000000000n
const FRACTION = 0x000fffffffffffffn
const STALE = 0x7ff0000000000002n
const NAN = 0x7ff8000000000001n
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** @throws Error when the bytes are not the message. */
export function referenceDecode(version: 1 | 2, message: Uint8Array): ReferenceResult {
  const result: ReferenceResult = { points: [], refused: 0 }
  const held = new Set<string>()
  const said = new Set<string>()
  const fields = fieldsOf(message)
  const symbols = version === 1 ? [] : fields.filter(({ number }) => number === 4).map((field) => bytesOf(field))
  if (symbols.length > 0 && symbols[0].length > 0) throw new Error('the first symbol')
  const series = fields.filter(({ number }) => number === (version === 1 ? 1 : 5)).map((field) => bytesOf(field))
  if (version === 1) for (const field of fields) if (field.number === 3) readMetadata(bytesOf(field))
  for (const [position, bytes] of series.entries()) readSeries(position, version, bytes, symbols, result, held, said)
  return result
}

function readSeries(
  position: number,
  version: 1 | 2,
  bytes: Uint8Array,
  symbols: Uint8Array[],
  result: ReferenceResult,
  held: Set<string>,
  said: Set<string>,
): void {
  const fields = fieldsOf(bytes)
  const samples = fields.filter(({ number }) => number === 2).map((field) => bytesOf(field))
  for (const field of fields) if (field.number === 3 || field.number === 4 || (version === 2 && field.number === 5)) bytesOf(field)
  const named = fields.filter(({ number }) => number === 1)
  const refs = version === 2 ? named.flatMap(refsOf) : []
  if (version === 1) for (const field of named) bytesOf(field)
  if (samples.length === 0) return
  let tags: Map<string, string>
  try {
    tags = version === 1 ? namesOf(named.map((field) => labelOf(bytesOf(field)))) : namesOf(pairsOf(refs, symbols))
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    result.refused += samples.length
    return
  }
  const metric = tags.get('__name__') as string
  const metadata = version === 2 ? fields.findLast(({ number }) => number === 5) : undefined
  // Read once for each metric of a request.
  if (metadata !== undefined && !said.has(metric)) {
    said.add(metric)
    for (const field of fieldsOf(metadata.bytes)) if (field.number === 1 || field.number === 3 || field.number === 4) expect(field, 0)
  }
  tags.delete('__name__')
  for (const sample of samples) {
    let bits = 0n
    let ms = 0n
    for (const field of fieldsOf(sample)) {
      if (field.number === 1) bits = expect(field, 1).value
      else if (field.number === 2) ms = BigInt.asIntN(64, expect(field, 0).value)
    }
    if (ms > MAX_MS || ms < -MAX_MS) {
      result.refused++
      continue
    }
    const field = bits === STALE && !held.has(metric) ? 'value:float' : 'value'
    if (field === 'value') held.add(metric)
    if ((bits & EXPONENT) === EXPONENT && (bits & FRACTION) !== 0n && bits !== STALE) bits = NAN
    result.points.push({ position, metric, field, tags: Object.fromEntries([...tags].filter(([, value]) => value !== '')), time: ms * 1_000_000n, bits })
  }
}

/** @throws RangeError for labels that make no series. */
function namesOf(labels: [Uint8Array, Uint8Array][]): Map<string, string> {
  const tags = new Map<string, string>()
  for (const [nameBytes, valueBytes] of labels) {
    let name: string
    let value: string
    try {
      name = utf8.decode(nameBytes)
      value = utf8.decode(valueBytes)
    } catch {
      throw new RangeError('not UTF-8')
    }
    if (name === '' || tags.has(name)) throw new RangeError('an empty name, or one twice')
    tags.set(name, value)
  }
  if ((tags.get('__name__') ?? '') === '') throw new RangeError('no name')
  return tags
}

function labelOf(bytes: Uint8Array): [Uint8Array, Uint8Array] {
  let name = NOTHING
  let value = NOTHING
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) name = bytesOf(field)
    else if (field.number === 2) value = bytesOf(field)
  }
  return [name, value]
}

function pairsOf(refs: bigint[], symbols: Uint8Array[]): [Uint8Array, Uint8Array][] {
  if (refs.length % 2 !== 0) throw new RangeError('a name without a value')
  const at = (ref: bigint): Uint8Array => {
    if (ref >= BigInt(symbols.length)) throw new RangeError('no such symbol')
    return symbols[Number(ref)]
  }
  return Array.from({ length: refs.length / 2 }, (_, i) => [at(refs[i * 2]), at(refs[i * 2 + 1])])
}

function refsOf(field: Field): bigint[] {
  if (field.wire === 0) return [BigInt.asUintN(32, field.value)]
  const bytes = bytesOf(field)
  const refs: bigint[] = []
  for (let at = 0; at < bytes.length; ) {
    const [value, next] = varintAt(bytes, at)
    refs.push(BigInt.asUintN(32, value))
    at = next
  }
  return refs
}

function readMetadata(bytes: Uint8Array): void {
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) expect(field, 0)
    else if (field.number === 2 || field.number === 4 || field.number === 5) bytesOf(field)
  }
}

function expect(field: Field, wire: number): Field {
  if (field.wire !== wire) throw new Error('wire type')
  return field
}

const bytesOf = (field: Field): Uint8Array => expect(field, 2).bytes

function fieldsOf(message: Uint8Array): Field[] {
  const fields: Field[] = []
  for (let at = 0; at < message.length; ) {
    const [field, next] = fieldAt(message, at, 0)
    if (field.wire === 4) throw new Error('the end of a group')
    fields.push(field)
    at = next
  }
  return fields
}

function fieldAt(message: Uint8Array, start: number, depth: number): [Field, number] {
  const [tag, after] = varintAt(message, start)
  if (tag >= 2n ** 32n || tag >> 3n === 0n) throw new Error('field number')
  const field = { number: Number(tag >> 3n), wire: Number(tag & 7n), value: 0n, bytes: NOTHING }
  const take = (length: number): number => {
    if (length > message.length - after) throw new Error('cut')
    return after + length
  }
  if (field.wire === 0) {
    const [value, next] = varintAt(message, after)
    return [{ ...field, value }, next]
  }
  if (field.wire === 1) {
    const end = take(8)
    return [{ ...field, value: Buffer.from(message.subarray(after, end)).readBigUInt64LE() }, end]
  }
  if (field.wire === 5) return [field, take(4)]
  if (field.wire === 2) {
    const [length, from] = varintAt(message, after)
    if (length > BigInt(message.length - from)) throw new Error('cut')
    return [{ ...field, bytes: message.subarray(from, from + Number(length)) }, from + Number(length)]
  }
  if (field.wire === 4) return [field, after]
  if (field.wire !== 3 || depth === 100) throw new Error('wire type')
  for (let at = after; ; ) {
    if (at >= message.length) throw new Error('a group does not end')
    const [inner, next] = fieldAt(message, at, depth + 1)
    at = next
    if (inner.wire === 4) return [field, at]
  }
}

function varintAt(bytes: Uint8Array, start: number): [bigint, number] {
  let value = 0n
  for (let i = 0; i < 10; i++) {
    if (start + i >= bytes.length) throw new Error('cut')
    const b = bytes[start + i]
    if (i === 9 && b > 1) throw new Error('more than 64 bits')
    value |= BigInt(b & 0x7f) << BigInt(7 * i)
    if (b < 0x80) return [value, start + i + 1]
  }
  throw new Error('more than 64 bits')
}
