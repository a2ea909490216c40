/** The lane against DuckDB: random rows in all states an engine keeps them in, random statements in and just outside of the lane's grammar. */
import { isDeepStrictEqual } from 'node:util'
import type { SqlCursor, SqlVector } from 'svcdb'
import { Random } from '../../../conformance/random.ts'
import { lane } from '../../read/lane.ts'
import { EngineReader } from '../../read/reader.ts'
import type { RelationContext } from '../../read/relation.ts'
import { TestDatabase, type TestMeasurement, type TestPoint } from '../../testing/engine-state.ts'
import { TestSegments } from '../../testing/test-segments.ts'
import type { Snapshot } from '../../threads/state.ts'
import { type LaneStatement, LaneStatements } from './lane-statements.ts'

const MS = 1_000_000n
export const LANE_START = 1_700_000_000_000n * MS
const SHARED_TABLE = 7
const HOSTS = ['a', 'b', 'ab', 'ä', '😀', '\uffee', 'c', 'd']
const NON_FINITE = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0x7ff0000000000002n]

/** How far rows are from what the lane takes. */
interface Manners {
  /** Share of values that rows lack, that are not finite, and of times within a millisecond. */
  sparse: number
  nonFinite: number
  fine: number
  /** Share of values whose sums are out of range, and of integers that doubles may not hold. */
  huge: number
  /** Each integer is below one of these, and as far below zero or not at all. */
  integers: readonly number[]
  signed: boolean
}

interface Table {
  measurement: TestMeasurement
  fields: readonly string[]
}

export interface Tried {
  outcome: 'samples' | 'duckdb' | 'refused'
  sql: string
  namespace: string
  problem?: string
}

interface Answer {
  columns: { name: string; type: string }[]
  rows: unknown[][]
  error?: string
}

export class LaneHarness {
  private readonly random: Random
  private readonly db: TestDatabase
  private readonly tables: Table[]
  private readonly manners: Manners
  private readonly segments: TestSegments
  private removals = 0

  constructor(seed: number) {
    this.random = new Random(seed)
    const { random } = this
    // With little room, most of what is read is decoded to memory that is used again.
    const db = new TestDatabase(random.chance(0.3) ? { sampleCacheBytes: random.pick([30_000, 400_000]), rowGroupRows: 2048 } : {})
    this.db = db
    this.segments = new TestSegments(db)
    const tame = random.chance(0.6)
    this.manners = {
      sparse: tame ? 0 : random.pick([0, 0.01, 0.3]),
      nonFinite: random.chance(0.5) ? 0 : random.pick([0.02, 0.3]),
      huge: random.chance(0.9) ? 0 : 0.05,
      integers: random.pick([[100], [100], [2 ** 31], [1e12], [2 ** 52], [100, 2 ** 15, 2 ** 31, 2 ** 52]]),
      signed: random.chance(0.5),
      fine: tame ? 0 : random.pick([0, 0.001, 0.3]),
    }
    const cpu = { u_a: 'float64', u_b: 'float64', n: 'int64', u_i: 'uint64', s: 'string', user: 'float64' } as const
    this.tables = [
      { measurement: db.measurement('cpu', cpu), fields: Object.keys(cpu) },
      { measurement: db.measurement('cpu', cpu, { namespace: 'other' }), fields: Object.keys(cpu) },
      { measurement: db.measurement('one', { u_a: 'float64' }, { shared: SHARED_TABLE }), fields: ['u_a'] },
      { measurement: db.measurement('one', { u_a: 'float64' }, { namespace: 'other', shared: SHARED_TABLE }), fields: ['u_a'] },
    ]
  }

  /** Some writes, flushes, merges, deletes and retention. */
  async change(): Promise<void> {
    const { random } = this
    for (let left = 1 + random.below(6); left > 0; left--) {
      for (const table of this.tables) this.write(table)
      if (random.chance(0.5)) this.segments.freeze()
      if (random.chance(0.5)) await this.segments.flush()
      if (random.chance(0.2)) await this.compact()
      if (random.chance(0.15)) this.delete()
      if (random.chance(0.05)) this.retain()
    }
  }

  /** A statement in two namespaces, one after the other: what the first leaves behind must not show in the second. */
  async tryOne(make: (random: Random) => LaneStatement = (random) => new LaneStatements(random, LANE_START).statement(random.chance(0.3))): Promise<Tried> {
    const { random } = this
    const statement = make(random)
    const first = await this.tryIn('default', statement)
    return first.problem === undefined && random.chance(0.5) ? this.tryIn('other', statement) : first
  }

  /** A statement as it stands and as one that asks for all rows: both of DuckDB, where the lane does not take them. */
  async tryWhole(make: (random: Random) => LaneStatement, options: Pick<RelationContext, 'firstSliceRows'> = {}): Promise<Omit<Tried, 'outcome'>> {
    const { sql, inDuckDb, ordered } = make(this.random)
    const namespace = this.random.pick(['default', 'other'])
    const textBytes = this.random.chance(0.5)
    const reader = await EngineReader.open({ ...(await this.db.context()), ...options })
    try {
      const found = await answer(() => reader.sql({ namespace, query: sql, textBytes }))
      const wanted = await answer(() => reader.sql({ namespace, query: inDuckDb }))
      return { sql, namespace, ...difference(found, wanted, ordered) }
    } finally {
      reader.close()
    }
  }

  private async tryIn(namespace: string, { sql, inDuckDb, ordered }: LaneStatement): Promise<Tried> {
    const textBytes = this.random.chance(0.3)
    const context = await this.db.context()
    const snapshot = this.db.state.snapshotNow() as Snapshot
    const reader = await EngineReader.open(context)
    let outcome: Tried['outcome'] = 'samples'
    let inSlices = false
    try {
      const other = (_times: unknown, firstRows?: number): Promise<SqlCursor> => {
        outcome = 'duckdb'
        inSlices ||= firstRows !== undefined
        return reader.sql({ namespace, query: inDuckDb, textBytes })
      }
      const alone = await answer(() => lane(context, snapshot, { namespace, query: sql, textBytes }, undefined, () => {}, other))
      // Rows of a slice of the time are the reader's to ask DuckDB for.
      const found = inSlices ? await answer(() => reader.sql({ namespace, query: sql, textBytes })) : alone
      const wanted = await answer(() => reader.sql({ namespace, query: inDuckDb }))
      if (found.error !== undefined) outcome = 'refused'
      return { outcome, sql, namespace, ...difference(found, wanted, ordered) }
    } finally {
      reader.close()
    }
  }

  close(): void {
    this.db.close()
  }

  private write({ measurement, fields }: Table): void {
    const { random, manners } = this
    const backfill = random.chance(0.2)
    const from = backfill ? random.below(400) : 400 + this.db.nextSegment * 20 + random.below(20)
    const steps = random.chance(0.1) ? 500 : 1 + random.below(30)
    const points: TestPoint[] = []
    for (let step = 0; step < steps; step++)
      for (const host of HOSTS) {
        if (random.chance(0.1)) continue
        const tags: Record<string, string> = host === 'd' ? { region: 'eu' } : { host, region: HOSTS.indexOf(host) % 2 === 0 ? 'eu' : 'us' }
        const time = LANE_START + BigInt(from + step) * 10_000n * MS + (random.chance(manners.fine) ? BigInt(random.below(3)) : 0n)
        const values = fields.filter(() => !random.chance(manners.sparse))
        points.push({ tags, time, fields: Object.fromEntries((values.length === 0 ? ['u_a'] : values).map((name) => [name, this.value(name)])) })
      }
    if (points.length > 0) this.db.write(measurement, points)
  }

  private value(name: string): number | bigint | string {
    const { random, manners } = this
    if (name === 'n' || name === 'u_i') return this.integer(name === 'n')
    if (name === 's') return random.pick(HOSTS)
    if (random.chance(manners.nonFinite)) return random.pick(NON_FINITE)
    if (random.chance(manners.huge)) return random.pick([1.7e308, 5e-324])
    return random.chance(0.8) ? random.below(100) : (random.next() - 0.3) * 1000
  }

  private integer(signed: boolean): bigint {
    const { random, manners } = this
    const value = random.chance(manners.huge)
      ? 2n ** random.pick([53n, 62n]) - BigInt(random.below(2))
      : BigInt(Math.floor(random.next() * random.pick(manners.integers)))
    return signed && manners.signed && random.chance(0.5) ? -value : value
  }

  private compact(): Promise<void> {
    const { def, table } = this.random.pick(this.tables).measurement
    return this.segments.compact(table.id, table.id === SHARED_TABLE ? undefined : def.id, this.removals)
  }

  private delete(): void {
    const { random } = this
    const { measurement } = random.pick(this.tables)
    const all = this.db.state.series.of(measurement.def.id)
    const series = random.chance(0.3) ? null : all.filter(() => random.chance(0.3))
    if (series?.length === 0) return
    const start = LANE_START + BigInt(random.below(600)) * 10_000n * MS + BigInt(random.below(2))
    const end = start + BigInt(random.below(40)) * 10_000n * MS
    this.segments.freeze()
    const { sequence } = this.db.memtable
    const tombstone = { id: ++this.removals, measurement: measurement.def.id, sequence, series, start, end }
    this.db.publish({ kind: 'tombstones', added: [tombstone], removed: [] })
  }

  private retain(): void {
    this.segments.freeze()
    const cutoff = LANE_START + BigInt(this.random.below(300)) * 10_000n * MS
    const all = { id: ++this.removals, cutoff, sequence: this.db.memtable.sequence, except: new Set<number>() }
    this.db.publish({ kind: 'cutoffs', cutoffs: { general: [all], own: new Map() } })
  }
}

async function answer(open: () => Promise<SqlCursor>): Promise<Answer> {
  try {
    const cursor = await open()
    const rows: unknown[][] = []
    for await (const { rows: count, columns } of cursor) for (let i = 0; i < count; i++) rows.push(columns.map((vector) => cellOf(vector, i)))
    return { columns: cursor.columns, rows }
  } catch (error) {
    return { columns: [], rows: [], error: (error as Error).message }
  }
}

function cellOf({ values, validity, bytes, dictionary }: SqlVector, i: number): unknown {
  if (validity?.[i] === 0) return null
  if (bytes !== undefined) return Buffer.from(bytes.subarray(values[i] as number, values[i + 1] as number)).toString()
  return dictionary === undefined ? values[i] : dictionary[values[i] as number]
}

function difference(found: Answer, wanted: Answer, ordered: boolean): { problem?: string } {
  if (ofAnyRow(found.error) !== ofAnyRow(wanted.error)) return { problem: `error ${found.error}, not ${wanted.error}` }
  if (!isDeepStrictEqual(found.columns, wanted.columns)) return { problem: `columns ${text(found.columns)}, not ${text(wanted.columns)}` }
  if (found.rows.length !== wanted.rows.length) return { problem: `${found.rows.length} rows, not ${wanted.rows.length}` }
  const [a, b] = ordered ? [found.rows, wanted.rows] : [sorted(found.rows), sorted(wanted.rows)]
  for (const [i, row] of a.entries()) if (!row.every((value, c) => same(value, b[i][c]))) return { problem: `row ${i} is ${text(row)}, not ${text(b[i])}` }
  return {}
}

/** Of several rows that are out of range DuckDB names the first that it comes by. */
const ofAnyRow = (error: string | undefined): string | undefined => error?.replace(/\(.* [-+*] .*\)/, '')

/** DuckDB adds doubles in the order in which its threads come by them, and has no order between zeros. */
function same(a: unknown, b: unknown): boolean {
  if (typeof a !== 'number' || typeof b !== 'number') return a === b
  // Less, and not as much: infinity is as much as a share of infinity.
  return Object.is(a, b) || a === b || Math.abs(a - b) < 1e-9 * Math.max(Math.abs(a), Math.abs(b), 1)
}

function sorted(rows: unknown[][]): unknown[][] {
  const key = (row: unknown[]): string => text(row.map((value) => (typeof value === 'number' ? value.toPrecision(6) : value)))
  return rows
    .map((row) => ({ row, key: key(row) }))
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : byNumbers(a.row, b.row)))
    .map(({ row }) => row)
}

/** Of rows that are alike in the digits of their keys. */
function byNumbers(a: unknown[], b: unknown[]): number {
  for (const [i, value] of a.entries()) {
    const other = b[i]
    if (typeof value === 'number' && typeof other === 'number' && value !== other) return value - other
  }
  return 0
}

const text = (value: unknown): string => JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `${each}n` : each))
