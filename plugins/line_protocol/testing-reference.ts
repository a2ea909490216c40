/** The line protocol as plainly as it can be written, for the fuzzer to compare with: strings, regular expressions, bigint, no state. */
import { Buffer } from 'node:buffer'
import type { DecodedPoint } from 'svcdb/testkit'
import type { LineLimits } from './limits.ts'

const UNITS: Record<string, bigint> = { ns: 1n, us: 1000n, ms: 1_000_000n, s: 1_000_000_000n, m: 60_000_000_000n, h: 3_600_000_000_000n }
const MEASUREMENT = /^(?:\\[\s\S]|[^\\, ])+/
const NAME = /^(?:\\[\s\S]|[^\\,= ])+/
const STRING = /^"((?:\\["\\]|[^"])*)"/

class Bad extends Error {}

/** The points of `body` by line, and the numbers of the lines refused. `body` holds no newline inside a string and no invalid UTF-8. */
export function referenceParse(body: string, precision: string, now: bigint, limits: LineLimits): { points: DecodedPoint[]; bad: number[] } {
  const points: DecodedPoint[] = []
  const bad: number[] = []
  const types = new Map<string, string>()
  body.split('\n').forEach((text, index) => {
    const line = text.replace(/^[ \t\r]+/, '')
    if (line === '' || line.startsWith('#')) return
    try {
      points.push(parseLine(line, index + 1, precision, now, limits, types))
    } catch (error) {
      if (!(error instanceof Bad)) throw error
      bad.push(index + 1)
    }
  })
  return { points, bad }
}

function parseLine(line: string, position: number, precision: string, now: bigint, limits: LineLimits, types: Map<string, string>): DecodedPoint {
  let rest = line
  const take = (pattern: RegExp): string => {
    const match = pattern.exec(rest)
    if (match === null) throw new Bad(String(pattern))
    rest = rest.slice(match[0].length)
    return match[0]
  }
  const measurement = name(take(MEASUREMENT), /\\([\\, ])/g, limits.maxNameBytes)
  const tags = new Map<string, string>()
  while (rest.startsWith(',')) {
    take(/^,/)
    const key = name(take(NAME), /\\([\\,= ])/g, limits.maxNameBytes)
    take(/^=/)
    const value = name(take(NAME), /\\([\\,= ])/g, limits.maxTagValueBytes)
    if (tags.has(key) || key === '_time') throw new Bad('tag')
    tags.set(key, value)
  }
  if (tags.size > limits.maxTags) throw new Bad('tags')
  take(/^ [ \t]*/)
  const fields = new Map<string, { type: string; value: DecodedPoint['fields'][string] }>()
  for (let count = 1; ; count++) {
    const key = name(take(NAME), /\\([\\,= ])/g, limits.maxNameBytes)
    if (key === '_time' || count > limits.maxFields) throw new Bad('field')
    take(/^=/)
    const string = STRING.exec(rest)
    const field = string !== null ? { type: 'string', value: string[1].replace(/\\(["\\])/g, '$1') } : typedValue(take(/^[^, \r]+/))
    if (string !== null) rest = rest.slice(string[0].length)
    const type = fields.get(key)?.type ?? types.get(`${measurement}\n${key}`) ?? field.type
    if (type !== field.type) throw new Bad('type')
    if (typeof field.value === 'string' && Buffer.byteLength(field.value) > limits.maxStringBytes) throw new Bad('string')
    fields.set(key, field)
    if (!rest.startsWith(',')) break
    take(/^,/)
  }
  const match = /^(?: [ \t]*(-?\d+)?[ \t]*)?\r?$/.exec(rest)
  if (match === null) throw new Bad('end')
  const time = match[1] === undefined ? now : BigInt(match[1]) * (precision === 'auto' ? unitBySize(BigInt(match[1])) : UNITS[precision])
  if (time !== BigInt.asIntN(64, time)) throw new Bad('time')
  for (const [key, field] of fields) types.set(`${measurement}\n${key}`, field.type)
  return {
    position,
    measurement,
    tags: Object.fromEntries([...tags].sort(([a], [b]) => (a < b ? -1 : 1))),
    time,
    fields: Object.fromEntries([...fields].map(([k, f]) => [k, f.value])),
  }
}

/** As InfluxDB 3 tells it. */
function unitBySize(time: bigint): bigint {
  const size = (time < 0n ? -time : time) / 1_000_000_000n
  return size < 5n ? UNITS.s : size < 5000n ? UNITS.ms : size < 5_000_000n ? UNITS.us : UNITS.ns
}

function name(raw: string, escapes: RegExp, maxBytes: number): string {
  const text = raw.replace(escapes, '$1')
  if (Buffer.byteLength(text) > maxBytes || text.includes('\u0000') || text.includes('\u0001')) throw new Bad('name')
  return text
}

function typedValue(text: string): { type: string; value: DecodedPoint['fields'][string] } {
  if (/^(t|T|true|True|TRUE)$/.test(text)) return { type: 'bool', value: true }
  if (/^(f|F|false|False|FALSE)$/.test(text)) return { type: 'bool', value: false }
  if (/^-?\d+i$/.test(text)) return { type: 'int64', value: inRange(BigInt(text.slice(0, -1)), -(2n ** 63n), 2n ** 63n) }
  if (/^\d+u$/.test(text)) return { type: 'uint64', value: inRange(BigInt(text.slice(0, -1)), 0n, 2n ** 64n) }
  if (!/^-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(text) && !/^[-+]?(\d+\.?\d*|\.\d+)d$/.test(text)) throw new Bad('number')
  if (text.endsWith('d')) return { type: 'decimal', value: { decimal: decimal(text.slice(0, -1)) } }
  const value = Number(text)
  if (!Number.isFinite(value)) throw new Bad('finite')
  return { type: 'float64', value }
}

function inRange(value: bigint, from: bigint, end: bigint): bigint {
  if (value < from || value >= end) throw new Bad('range')
  return value
}

/** Normal form: no needless leading zeros, all fractional digits, no minus zero. */
function decimal(text: string): string {
  const [whole, fraction = ''] = text.replace(/^[-+]/, '').split('.')
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  if (digits.length > 38 || fraction.length > 38) throw new Bad('decimal')
  const body = `${whole.replace(/^0+(?=.)/, '') || '0'}${fraction === '' ? '' : `.${fraction}`}`
  return text.startsWith('-') && digits !== '' ? `-${body}` : body
}
