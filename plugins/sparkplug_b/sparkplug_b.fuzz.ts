/**
 * Sessions of births and data, encoded by another implementation, against what was put in; and the same bytes damaged: whatever comes is refused or read, within bounds.
 * node plugins/sparkplug_b/sparkplug_b.fuzz.ts [seconds] [seed]
 */
import { deepStrictEqual, ok } from 'node:assert'
import { SvcError } from 'svcdb/lib/errors'
import { type Random, seeded } from 'svcdb/lib/random'
import { encode, type Host, host, NOW, type SentMetric } from './testing.ts'

const MAX_METRICS = 400
const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const whole = (random: Random, least: number, most: number): number => Math.floor(random() * (most - least + 1)) + least

/** A value of a type: what is sent, and what is stored. */
const TYPES: Record<string, (random: Random) => [unknown, unknown]> = {
  Int8: (random) => integer(whole(random, -128, 127)),
  Int16: (random) => integer(whole(random, -32768, 32767)),
  Int32: (random) => integer(pick(random, [-(2 ** 31), 2 ** 31 - 1, whole(random, -1e6, 1e6)])),
  Int64: (random) => integer(pick(random, [-(2 ** 53), 2 ** 53, whole(random, -1e12, 1e12)])),
  UInt8: (random) => integer(whole(random, 0, 255)),
  UInt16: (random) => integer(whole(random, 0, 65535)),
  UInt32: (random) => integer(whole(random, 0, 2 ** 32 - 1)),
  UInt64: (random) => integer(pick(random, [0, 2 ** 63, 2 ** 53])),
  Float: (random) => {
    const value = Math.fround((random() - 0.5) * 10 ** whole(random, -3, 10))
    return [value, value]
  },
  Double: (random) => {
    const value = (random() - 0.5) * 10 ** whole(random, -20, 20)
    return [value, value]
  },
  Boolean: (random) => {
    const value = random() < 0.5
    return [value, value]
  },
  String: (random) => {
    const value = pick(random, ['', 'a', 'é漢\n"', 'x'.repeat(300)])
    return [value, value]
  },
  DateTime: (random) => integer(whole(random, 0, NOW)),
}
const integer = (value: number): [unknown, unknown] => [value, BigInt(value)]

interface Known {
  name: string
  alias: number
  type: string
}

/** One edge node with devices for a while; each message must come to what was put in. */
function session(random: Random, made: Host): Uint8Array[] {
  const sent: Uint8Array[] = []
  const origins = new Map<string, Known[]>()
  let seq = 0
  let time = NOW
  const node = `n${whole(random, 0, 3)}`
  const send = (type: string, device: string, metrics: SentMetric[], expected: Record<string, unknown>): void => {
    time++
    const body = encode({ timestamp: time, seq, metrics })
    sent.push(body)
    seq = (seq + 1) % 256
    const { points, error } = made.take(`spBv1.0/g/${type}/${node}${device === '' ? '' : `/${device}`}`, body)
    deepStrictEqual(error, undefined)
    const [first] = points.filter(({ measurement }) => measurement !== 'state')
    deepStrictEqual(first?.fields ?? {}, expected)
    if (first !== undefined) deepStrictEqual([first.time, first.tags.device_id ?? ''], [BigInt(time) * 1_000_000n, device])
  }
  for (let i = 0; i < 30; i++) {
    const device = i === 0 ? '' : pick(random, ['', 'd1', 'd2', 'd3'])
    let known = origins.get(device)
    const birth = known === undefined || random() < 0.1
    if (birth) {
      if (device === '') origins.clear()
      // Types of their own for each life, so that no field has two.
      known = Array.from({ length: whole(random, 0, 12) }, (_, m) => {
        const type = pick(random, Object.keys(TYPES))
        return { name: `${type}/${device}/${m}`, alias: whole(random, 0, 1e6) * 100 + m, type }
      })
      origins.set(device, known)
      if (device === '') seq = 0
    }
    const chosen = (known as Known[]).filter(() => birth || random() < 0.5)
    const expected: Record<string, unknown> = {}
    const metrics = chosen.map(({ name, alias, type }): SentMetric => {
      const [value, stored] = TYPES[type](random)
      const isNull = random() < 0.05
      if (!isNull) expected[name] = stored
      return {
        alias,
        type,
        value: isNull ? null : value,
        ...(isNull && { isNull }),
        ...((birth || random() < 0.2) && { name }),
        ...(random() < 0.5 && { timestamp: time + 1 }),
      }
    })
    send(`${device === '' ? 'N' : 'D'}${birth ? 'BIRTH' : 'DATA'}`, device, metrics, expected)
  }
  return sent
}

function damaged(random: Random, body: Uint8Array): Uint8Array {
  const bytes = Uint8Array.from(body)
  for (let n = whole(random, 1, 4); n > 0 && bytes.length > 0; n--) bytes[whole(random, 0, bytes.length - 1)] = whole(random, 0, 255)
  return random() < 0.3 ? bytes.subarray(0, whole(random, 0, bytes.length)) : bytes
}

const seconds = Number(process.argv[2] ?? 10)
const seed = Number(process.argv[3] ?? Math.floor(Math.random() * 2 ** 31))
const random = seeded(seed)
let sessions = 0
let read = 0
let refused = 0
try {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; sessions++) {
    const bodies = session(random, host(MAX_METRICS))
    const hostile = host(MAX_METRICS)
    for (let i = 0; i < 60; i++) {
      const topic = `spBv1.0/g/${pick(random, ['NBIRTH', 'NDATA', 'NDEATH'])}/n${whole(random, 0, 5)}`
      const device = topic.replace('/N', '/D')
      try {
        hostile.take(random() < 0.5 ? topic : `${device}/d${whole(random, 0, 9)}`, damaged(random, pick(random, bodies)), { redelivered: random() < 0.2 })
        read++
      } catch (error) {
        ok(error instanceof SvcError && ['BAD_REQUEST', 'INVALID_POINT', 'CARDINALITY_EXCEEDED'].includes(error.code), String(error))
        refused++
      }
      if (random() < 0.05) hostile.sessions.interrupted()
      ok(hostile.sessions.size <= MAX_METRICS)
    }
  }
} catch (error) {
  console.error(`seed ${seed}, session ${sessions}`)
  throw error
}
console.log(`${sessions} sessions came to what was put in; of damaged messages ${read} were read and ${refused} refused (seed ${seed})`)
