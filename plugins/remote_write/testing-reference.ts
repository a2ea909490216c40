/** The decoder's oracle for tests: both messages read field by field into objects, with BigInts and no shortcuts. Floats only. */
import { varintAt, type WireField, walkFields } from 'svcdb/testkit'

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
  const fields = [...walkFields(message)]
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
  const fields = [...walkFields(bytes)]
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
    for (const field of walkFields(metadata.bytes)) if (field.number === 1 || field.number === 3 || field.number === 4) expect(field, 0)
  }
  tags.delete('__name__')
  for (const sample of samples) {
    let bits = 0n
    let ms = 0n
    for (const field of walkFields(sample)) {
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
  for (const field of walkFields(bytes)) {
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

function refsOf(field: WireField): bigint[] {
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
  for (const field of walkFields(bytes)) {
    if (field.number === 1) expect(field, 0)
    else if (field.number === 2 || field.number === 4 || field.number === 5) bytesOf(field)
  }
}

function expect(field: WireField, wire: number): WireField {
  if (field.wire !== wire) throw new Error('wire type')
  return field
}

const bytesOf = (field: WireField): Uint8Array => expect(field, 2).bytes
