/** What the client knows of each batch, and what the server must therefore hold. */
import { readFile } from 'node:fs/promises'
import {
  batchAt,
  canonical,
  type ExpectedPoint,
  expectedPoints,
  identityOf,
  MEASUREMENT,
  NS_PER_BATCH,
  type Protocol,
  protocolOf,
  TEXT_PROTOCOLS,
} from './workload.ts'

export class Ledger {
  readonly base: bigint
  readonly acknowledged = new Set<number>()
  /** Sent, never answered. */
  readonly unknown = new Set<number>()
  /** Refused with the promise that nothing was stored. */
  readonly none = new Set<number>()
  next = 0
  /** Sent again after an attempt with no answer. */
  private readonly repeated = new Set<number>()
  private readonly file: string
  private consumed = 0
  /** Batches that `compare` has found; they may never go again. */
  private readonly seen = new Set<number>()

  constructor(file: string, base: bigint) {
    this.file = file
    this.base = base
  }

  /** Reads what the client has added. @throws Error for an answer that no batch of this workload may get. */
  async load(): Promise<void> {
    const text = await readFile(this.file, 'utf8').catch(() => '')
    const end = text.lastIndexOf('\n') + 1
    const added = text.slice(this.consumed, end).split('\n').slice(0, -1)
    this.consumed = Math.max(this.consumed, end)
    for (const line of added) {
      const [word, number] = line.split(' ')
      const batch = Number(number)
      if (word === 'begin') {
        this.next = Math.max(this.next, batch + 1)
        if (this.unknown.has(batch)) this.repeated.add(batch)
        this.unknown.add(batch)
      } else if (word === 'ack') {
        this.acknowledged.add(batch)
        this.unknown.delete(batch)
      } else if (word === 'none') {
        // A refusal says nothing about an earlier attempt whose answer was lost.
        if (this.repeated.has(batch)) continue
        this.none.add(batch)
        this.unknown.delete(batch)
      } else throw new Error(`the server has refused a good batch: ${line}`)
    }
  }

  /**
   * Reads the batches from `from` on.
   * @returns the points found. @throws Error naming a batch that is missing, half there, or there against the server's word.
   */
  async compare(url: string, from: number, protocols: readonly Protocol[]): Promise<number> {
    const { present, points } = await readBatches(url, this.base, from, this.next, protocols)
    for (let batch = from; batch < this.next; batch++) {
      if (present.has(batch)) {
        if (this.none.has(batch) && !this.seen.has(batch)) throw new Error(`batch ${batch} is there, though the server said that nothing of it is stored`)
        this.seen.add(batch)
      } else if (this.acknowledged.has(batch)) throw new Error(`acknowledged batch ${batch} is missing`)
      else if (this.seen.has(batch)) throw new Error(`batch ${batch} is missing, though it was there after an earlier restart`)
    }
    return points
  }
}

export interface Findings {
  /** Batches that are there in full. */
  present: Set<number>
  points: number
}

/**
 * Reads batches [from, to) and compares every value.
 * @throws Error naming the batch that is there in part, twice, with wrong values, or though it was never sent.
 */
export async function readBatches(url: string, base: bigint, from: number, to: number, protocols: readonly Protocol[] = TEXT_PROTOCOLS): Promise<Findings> {
  const present = new Set<number>()
  let points = 0
  for (const protocol of protocols) {
    const rows = await query(url, MEASUREMENT[protocol], base + BigInt(from) * NS_PER_BATCH, base + BigInt(to) * NS_PER_BATCH)
    points += rows.length
    const byBatch = Map.groupBy(rows, (row) => batchAt(base, row.time))
    for (const [batch, found] of byBatch) {
      if (protocolOf(batch, protocols) !== protocol) throw new Error(`batch ${batch} is in measurement ${MEASUREMENT[protocol]}, where it was never sent`)
      compareBatch(batch, expectedPoints(base, batch, protocol), found)
      present.add(batch)
    }
  }
  return { present, points }
}

function compareBatch(batch: number, expected: ExpectedPoint[], found: ExpectedPoint[]): void {
  for (const points of [found, expected]) points.sort((a, b) => (identity(a) < identity(b) ? -1 : 1))
  for (let i = 1; i < found.length; i++) {
    if (identity(found[i]) === identity(found[i - 1]))
      throw new Error(`batch ${batch} has the point at ${found[i].time} twice: ${text(found[i - 1])} and ${text(found[i])}`)
  }
  if (found.length !== expected.length) throw new Error(`batch ${batch} is half present: ${found.length} of ${expected.length} points`)
  for (const [i, point] of expected.entries()) {
    if (text(point) !== text(found[i])) throw new Error(`batch ${batch} has a wrong point:\n  expected ${text(point)}\n  found    ${text(found[i])}`)
  }
}

function identity({ time, tags }: ExpectedPoint): string {
  return `${time} ${canonical(tags)}`
}

function text({ time, tags, fields }: ExpectedPoint): string {
  return `${identity({ time, tags, fields })} ${fields}`
}

interface NativeRow {
  timestamp: bigint
  tags: Record<string, string>
  fields: Record<string, unknown>
}

/** All points of a measurement in [start, end); none when it does not exist. */
export async function query(url: string, measurement: string, start: bigint, end: bigint): Promise<ExpectedPoint[]> {
  const answer = await fetch(`${url}/api/v1/svc/query`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"measurement":${JSON.stringify(measurement)},"range":{"start":${start},"end":${end}}}`,
  })
  const body = await answer.text()
  // Nothing of the measurement may have reached the server before the kill.
  if (answer.status === 404) return []
  if (answer.status !== 200) throw new Error(`the query of ${measurement} answers ${answer.status}: ${body.slice(0, 500)}`)
  const rows = JSON.parse(body, exactIntegers as Parameters<typeof JSON.parse>[1]) as NativeRow[]
  return rows.map(({ timestamp, tags, fields }) => ({ time: BigInt(timestamp), tags, fields: canonical(fields) }))
}

/** Whole numbers past 2^53 as bigint, by their digits. */
function exactIntegers(_key: string, value: unknown, context: { source?: string }): unknown {
  return typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source ?? '') ? BigInt(context.source as string) : value
}

/** Points by batch as SQL counts them, for comparison with what the native query shows. */
export async function countBySql(url: string, protocols: readonly Protocol[] = TEXT_PROTOCOLS): Promise<number> {
  let total = 0
  for (const protocol of protocols) {
    const measurement = MEASUREMENT[protocol]
    const answer = await fetch(`${url}/api/v1/svc/sql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: `SELECT count(*) AS n, count(DISTINCT ${identityOf(protocol)}) AS distinct_times FROM ${measurement}` }),
    })
    const body = await answer.text()
    if (answer.status === 400 && body.includes('there is none of that name')) continue // as in `query`
    if (answer.status !== 200) throw new Error(`the SQL count of ${measurement} answers ${answer.status}: ${body.slice(0, 500)}`)
    const { rows } = JSON.parse(body) as { rows: [number, number][] }
    const [count, distinct] = rows[0]
    if (count !== distinct) throw new Error(`SQL counts ${count} points at ${distinct} times in ${measurement}`)
    total += count
  }
  return total
}
