/** Chunks of 2048 rows (time, tag, double) to record batches: node kernel/lib/arrow/encoder.bench.ts [million rows] */
import type { SqlChunk, SqlColumn, SqlVector } from '../sql-result/index.ts'
import { ArrowEncoder, type EncoderOptions } from './encoder.ts'
import { streamPrefix } from './framing.ts'

const CHUNK = 2048
const millions = Number(process.argv[2] ?? 20)
const columns: SqlColumn[] = [
  { name: '_time', type: 'Timestamp(ns)' },
  { name: 'host', type: 'Utf8' },
  { name: 'value', type: 'Float64' },
]
const hosts = Array.from({ length: 1000 }, (_, i) => `host_${i}`)
const times = BigInt64Array.from({ length: CHUNK }, (_, i) => 1_700_000_000_000_000_000n + BigInt(i) * 10_000_000_000n)
const values = Float64Array.from({ length: CHUNK }, (_, i) => i / 7)
const mixed = Array.from({ length: CHUNK }, (_, i) => (i * 7919) % hosts.length)
const texts = mixed.map((code) => hosts[code])
const ends = new Int32Array(CHUNK + 1)
for (let i = 0; i < CHUNK; i++) ends[i + 1] = ends[i] + texts[i].length
const validity = Uint8Array.from({ length: CHUNK }, (_, i) => (i % 10 === 0 ? 0 : 1))

const tags: [string, SqlVector][] = [
  ['tag in runs, ENUM', { values: Uint16Array.from({ length: CHUNK }, (_, i) => i >> 9), dictionary: hosts }],
  ['tag mixed, ENUM', { values: Uint16Array.from(mixed), dictionary: hosts }],
  ['tag mixed, bytes', { values: ends, bytes: Buffer.from(texts.join('')) }],
  ['tag mixed, strings', { values: texts }],
]

function measure(name: string, chunk: SqlChunk, options: EncoderOptions): void {
  const rounds = Math.ceil((millions * 1e6) / CHUNK)
  const run = (count: number): number => {
    const encoder = new ArrowEncoder(columns, { prefix: streamPrefix, ...options })
    let bytes = 0
    for (let i = 0; i < count; i++) for (const { framed } of encoder.push(chunk)) bytes += framed!.length
    for (const { framed } of encoder.flush()) bytes += framed!.length
    return bytes
  }
  run(rounds / 10)
  const before = process.cpuUsage()
  const bytes = run(rounds)
  const { user, system } = process.cpuUsage(before)
  const seconds = (user + system) / 1e6
  console.log(`${name.padEnd(34)} ${((rounds * CHUNK) / seconds / 1e6).toFixed(1)} million rows, ${(bytes / seconds / 1e6).toFixed(0)} MB a second`)
}

const chunkWith = (tag: SqlVector, present?: Uint8Array): SqlChunk => ({
  rows: CHUNK,
  columns: [{ values: times }, tag, { values, validity: present }],
})
for (const [name, tag] of tags) measure(name, chunkWith(tag), {})
measure('tag mixed, ENUM, with gaps', chunkWith(tags[1][1], validity), {})
measure('tag mixed, ENUM, to dictionary', chunkWith(tags[1][1]), { dictionaries: true })
for (const maxBytes of [1 << 18, 1 << 19, 1 << 20, 4 << 20, 16 << 20])
  measure(`tag mixed, ENUM, ${maxBytes >> 10} KiB`, chunkWith(tags[1][1]), { maxBytes, maxRows: 1 << 20 })
