/**
 * Random work on a measurement with rollups, three on two tiers or many that share scans, and a model that computes every bucket again from all raw points after each step. The model shares
 * no code with the plugin: buckets of days are found by the dates of Intl, aggregations by plain loops.
 */
import { type Random, seeded } from 'svcdb/lib/random'

export const HOUR = 3_600_000_000_000n
/** 2024-03-29T00:00:00Z: two days before clocks change in Berlin. */
export const T0 = 1_711_670_400_000_000_000n
const TOLERANCE = 2n
const ZONE = 'Europe/Berlin'
const PATIENCE_MS = 60_000
const HOSTS = ['a', 'b', 'c']
const CORES = ['0', '1']

export const modelDatabase = { ooo_shard_tolerance: Number(TOLERANCE), soft_delete_ttl_secs: 86_400 * 365 * 50 }
export const modelSection = { interval_ms: 10, max_buckets_per_slice: 32 }

export type Tags = Record<string, string>
export type Values = Record<string, number>
interface Point {
  tags: Tags
  time: bigint
  values: Values
}
export type Ask = (method: string, path: string, body?: unknown, text?: boolean, headers?: Record<string, string>) => Promise<{ status: number; body: string }>

/** Asks the server that is there when it is asked. A body is text as it is, and JSON else; `text` says so of text. */
export function asks(url: () => string): Ask {
  return async (method, path, body, text = false, headers = {}) => {
    const type = { 'content-type': text ? 'text/plain' : 'application/json' }
    const payload = body === undefined ? { headers } : { body: typeof body === 'string' ? body : JSON.stringify(body), headers: { ...type, ...headers } }
    const answer = await fetch(url() + path, { method, ...payload })
    return { status: answer.status, body: await answer.text() }
  }
}

export interface Row {
  tags: Tags
  time: bigint
  values: Values
}

interface Tier {
  name: string
  source: string
  target: string
  every: string
  timezone?: string
  aggregations: string[]
  group_by_tags: string[] | null
  /** It may fail at any time, and is not compared. */
  fails?: true
  floor(time: bigint): bigint
}

const hours = (n: bigint) => (time: bigint) => time - (((time % (n * HOUR)) + n * HOUR) % (n * HOUR))
const date = new Intl.DateTimeFormat('en-CA', { timeZone: ZONE, year: 'numeric', month: '2-digit', day: '2-digit' })
const dates = new Map<bigint, string>()
function dateOf(hour: bigint): string {
  const known = dates.get(hour) ?? date.format(Number(hour / 1_000_000n))
  dates.set(hour, known)
  return known
}
/** Midnight in Berlin: the first hour of the date. */
function berlinDay(time: bigint): bigint {
  let hour = hours(1n)(time)
  while (dateOf(hour - HOUR) === dateOf(hour)) hour -= HOUR
  return hour
}

const TIERS: Tier[] = [
  {
    ...{ name: 'hourly', source: 'cpu', target: 'cpu_1h', every: '1h', group_by_tags: ['host'], floor: hours(1n) },
    aggregations: ['avg', 'min', 'max', 'sum', 'count', 'first', 'last', 'stddev', 'quantile(0.5)'],
  },
  { name: 'pairs', source: 'cpu', target: 'cpu_2h', every: '2h', aggregations: ['LAST', 'Count'], group_by_tags: null, floor: hours(2n) },
  {
    name: 'daily',
    source: 'cpu_1h',
    target: 'cpu_1d',
    every: '1d',
    timezone: ZONE,
    aggregations: ['sum', 'max', 'count'],
    group_by_tags: [],
    floor: berlinDay,
  },
]

const MINUTE = HOUR / 60n
const WIDTHS: Pick<Tier, 'every' | 'timezone' | 'floor'>[] = [
  { every: '10m', floor: (time) => time - (time % (10n * MINUTE)) },
  { every: '1h', floor: hours(1n) },
  { every: '2h', floor: hours(2n) },
  { every: '5h', floor: hours(5n) },
  { every: '1d', timezone: ZONE, floor: berlinDay },
]
/** Of a target where one for each series is too many: `max_series_per_rollup` of the test. */
export const FEW_SERIES = 5

/** Rollups of one source, of random widths, groups and aggregations, and one that fails whenever too many series have written. */
export function manyTiers(random: Random): Tier[] {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const many = Array.from({ length: 12 }, (_, i): Tier => {
    const aggregations = TIERS[0].aggregations.filter(() => random() < 0.4)
    const names = { name: `many${i}`, source: 'cpu', target: `cpu_many${i}` }
    return {
      ...names,
      ...pick(WIDTHS),
      aggregations: ['count', ...aggregations.filter((name) => name !== 'count')],
      group_by_tags: pick([[], ['host'], ['core']]),
    }
  })
  const failing: Tier = { name: 'fails', source: 'cpu', target: 'cpu_fails', ...WIDTHS[1], aggregations: ['sum'], group_by_tags: null, fails: true }
  return [...many, failing, { name: 'tier', source: 'cpu_many0', target: 'cpu_tier', ...WIDTHS[4], aggregations: ['max'], group_by_tags: [] }]
}

const keyOf = (tags: Tags): string => JSON.stringify(Object.entries(tags).sort())

function aggregate(points: readonly Point[], { aggregations, group_by_tags: groupBy, floor }: Tier): Row[] {
  const groups = new Map<string, { row: Row; points: Point[] }>()
  for (const point of points) {
    const tags = groupBy === null ? point.tags : Object.fromEntries(groupBy.filter((tag) => tag in point.tags).map((tag) => [tag, point.tags[tag]]))
    const time = floor(point.time)
    const key = `${keyOf(tags)} ${time}`
    const group = groups.get(key) ?? { row: { tags, time, values: {} }, points: [] }
    groups.set(key, group)
    group.points.push(point)
  }
  for (const { row, points } of groups.values()) {
    const order = (a: Point, b: Point) => (a.time < b.time ? -1 : a.time > b.time ? 1 : keyOf(a.tags) < keyOf(b.tags) ? -1 : 1)
    const sorted = points.sort(order)
    for (const field of new Set(sorted.flatMap(({ values }) => Object.keys(values)))) {
      const values = sorted.flatMap(({ values }) => (field in values ? [values[field]] : []))
      for (const name of aggregations) {
        const value = aggregated(name.toLowerCase(), values)
        if (value !== undefined) row.values[`${field}_${name.startsWith('quantile') ? 'p50' : name.toLowerCase()}`] = value
      }
    }
  }
  return [...groups.values()].map(({ row }) => row)
}

function aggregated(name: string, values: number[]): number | undefined {
  const sum = values.reduce((a, b) => a + b, 0)
  const mean = sum / values.length
  const sorted = [...values].sort((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  switch (name) {
    case 'avg':
      return mean
    case 'min':
      return sorted[0]
    case 'max':
      return sorted[sorted.length - 1]
    case 'sum':
      return sum
    case 'count':
      return values.length
    case 'first':
      return values[0]
    case 'last':
      return values[values.length - 1]
    case 'stddev':
      return values.length < 2 ? undefined : Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / (values.length - 1))
    default:
      return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2
  }
}

export class RollupWorld {
  readonly random: Random
  private readonly points = new Map<string, Point>()
  private readonly dropped: Map<string, Point>[] = []
  private newest = T0
  private readonly until = new Map<string, bigint>()
  private fields = ['usage']
  private steps = 0
  private tiers: Tier[]

  constructor(seed: number, tiers: (random: Random) => Tier[] = () => TIERS) {
    this.random = seeded(seed)
    this.tiers = tiers(this.random)
  }

  async begin(ask: Ask): Promise<void> {
    for (const { floor: _, fails: __, source, target, ...tier } of this.tiers)
      await good(ask('POST', '/api/v1/rollups', { ...tier, source_measurement: source, target_measurement: target }), 201)
  }

  /** One random operation, acknowledged. @returns what it was. */
  async step(ask: Ask): Promise<string> {
    this.steps++
    const dice = this.random()
    if (this.steps < 3 || dice < 0.35) return this.live(ask)
    if (dice < 0.6) return this.backfill(ask)
    if (dice < 0.8) return this.remove(ask)
    if (dice < 0.86) return this.drop(ask)
    if (dice < 0.93) return this.restore(ask)
    return this.refresh(ask)
  }

  /** Points of more series in one bucket than the rollup that fails may have, and what closes the bucket. */
  async crowd(ask: Ask): Promise<void> {
    const time = this.newest
    const made = HOSTS.flatMap((host) => CORES.map((core): Point => ({ tags: { host, core }, time, values: { usage: 1 } })))
    made.push({ ...made[0], time: time + 48n * HOUR })
    await good(ask('POST', '/write', made.map(({ tags, time }) => `cpu,host=${tags.host},core=${tags.core} usage=1 ${time}`).join('\n'), true), 204)
    for (const point of made) this.take(point)
  }

  /** @throws Error with the first difference between the raw points and what was acknowledged. */
  async whole(ask: Ask): Promise<void> {
    const problem = differenceOf(await read(ask, 'cpu'), [...this.points.values()])
    if (problem !== undefined) throw new Error(`raw points: ${problem}`)
  }

  /** What is there now. @returns goes back to it. */
  kept(): () => void {
    const { points, dropped, newest, until, fields } = structuredClone({
      ...{ points: this.points, dropped: this.dropped, newest: this.newest, until: this.until, fields: this.fields },
    })
    const { tiers } = this
    const refill = <K, V>(map: Map<K, V>, from: ReadonlyMap<K, V>): void => {
      map.clear()
      for (const [key, value] of from) map.set(key, value)
    }
    return () => {
      refill(this.points, points)
      refill(this.until, until)
      this.dropped.splice(0, this.dropped.length, ...dropped.map((one) => new Map(one)))
      this.newest = newest
      this.fields = [...fields]
      this.tiers = tiers
    }
  }

  /** Deletes one of the rollups on which no tier rests. */
  async dropRollup(ask: Ask): Promise<void> {
    const dropped = this.pick(this.tiers.filter(({ target, fails }) => fails === undefined && this.tiers.every(({ source }) => source !== target)))
    this.tiers = this.tiers.filter((tier) => tier !== dropped)
    await good(ask('DELETE', `/api/v1/rollups/${dropped.name}`), 204)
  }

  /** Waits until the targets are what the model says, as long as there is progress. @throws Error with the first difference. */
  async settled(ask: Ask): Promise<void> {
    let before = ''
    let end = 0
    for (;;) {
      const problem = await this.difference(ask)
      if (problem === undefined) return
      if (problem !== before) end = Date.now() + PATIENCE_MS
      else if (Date.now() > end) throw new Error(problem)
      before = problem
      await new Promise((resolve) => setTimeout(resolve, 15))
    }
  }

  private async difference(ask: Ask): Promise<string | undefined> {
    const { items } = JSON.parse((await good(ask('GET', '/api/v1/rollups'), 200)).replace(/("materialised_until":)(-?\d+)/g, '$1"$2"')) as {
      items: { name: string; materialised_until: string; pending_repairs: unknown[]; last_error: string | null }[]
    }
    const rows = new Map<string, Point[]>([['cpu', [...this.points.values()]]])
    for (const tier of this.tiers) {
      if (tier.fails) continue
      const state = items.find(({ name }) => name === tier.name)
      if (state === undefined) return `rollup ${tier.name} is not there`
      if (state.last_error !== null) return `${tier.name}: ${state.last_error}`
      if (state.pending_repairs.length > 0) return `${tier.name} has repairs: ${state.pending_repairs.join(' ')}`
      const source = rows.get(tier.source) as Point[]
      const end = tier.source === 'cpu' ? tier.floor((this.newest / HOUR - TOLERANCE) * HOUR) : tier.floor(this.until.get(tier.source) ?? T0)
      if (this.points.size + this.steps > 0 && (tier.source === 'cpu' || this.until.has(tier.source))) {
        const before = this.until.get(tier.target)
        this.until.set(tier.target, before === undefined || end > before ? end : before)
      }
      const until = this.until.get(tier.target)
      if (BigInt(state.materialised_until) !== (until ?? 0n)) return `${tier.name} is at ${state.materialised_until}, not at ${until}`
      const wanted = aggregate(source, tier).filter(({ time }) => until !== undefined && time < until)
      rows.set(tier.target, wanted)
      const found = await read(ask, tier.target)
      const problem = differenceOf(
        found.filter(({ time }) => until !== undefined && time < until),
        wanted,
      )
      if (problem !== undefined) return `${tier.name}: ${problem}`
      const shown = await view(ask, tier.name)
      // Behind the watermark of a tier the source is what is materialised below.
      const current = tier.source === 'cpu' ? source : await read(ask, tier.source)
      const wrong = differenceOf(shown, aggregate(current, tier))
      if (wrong !== undefined) return `${tier.name} in real time: ${wrong}`
    }
    return undefined
  }

  private pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]
  }

  private async write(ask: Ask, times: readonly bigint[], backfill: boolean): Promise<void> {
    const made = times.map((time): Point => {
      const values: Values = {}
      for (const field of this.fields) if (field === 'usage' || this.random() < 0.5) values[field] = Math.floor(this.random() * 1000)
      if (this.fields.length > 1 && this.random() < 0.1) delete values.usage
      if (Object.keys(values).length === 0) values.usage = 1
      return { tags: { host: this.pick(HOSTS), ...(this.random() < 0.8 ? { core: this.pick(CORES) } : {}) }, time, values }
    })
    const lines = made.map(({ tags, time, values }) => {
      const text = (record: Record<string, string | number>) => Object.entries(record).map(([key, value]) => `${key}=${value}`)
      return `${['cpu', ...text(tags)].join(',')} ${text(values).join(',')} ${time}`
    })
    await good(ask('POST', `/write?backfill=${backfill}`, lines.join('\n'), true), 204)
    for (const point of made) this.take(point)
  }

  /** A point of `cpu` that is durable, whoever has written it. */
  take(point: Point): void {
    const key = `${keyOf(point.tags)} ${point.time}`
    this.points.set(key, { ...point, values: { ...this.points.get(key)?.values, ...point.values } })
    if (point.time > this.newest) this.newest = point.time
  }

  private async live(ask: Ask): Promise<string> {
    if (this.fields.length < 3 && this.random() < 0.1) this.fields.push(`extra${this.fields.length}`)
    const first = this.newest
    const step = this.random() < 0.2 ? 12n * HOUR : HOUR
    const times = Array.from({ length: 1 + Math.floor(this.random() * 30) }, () => first + BigInt(Math.floor(this.random() * 60)) * (step / 30n))
    await this.write(ask, times, false)
    return `${times.length} live points`
  }

  private async backfill(ask: Ask): Promise<string> {
    const span = Number((this.newest - T0) / HOUR) + 48
    const spread = this.random() < 0.1 ? span : 3
    const at = this.random() * span - 48
    const times = Array.from(
      { length: 1 + Math.floor(this.random() * 10) },
      () => T0 + BigInt(Math.floor((at + this.random() * spread) * 60)) * (HOUR / 60n),
    ).filter((time) => time <= this.newest)
    if (times.length > 0) await this.write(ask, times, true)
    return `${times.length} points of the past`
  }

  private async remove(ask: Ask): Promise<string> {
    const span = Number((this.newest - T0) / HOUR) + 48
    const start = T0 + BigInt(Math.floor((this.random() * span - 48) * 60)) * (HOUR / 60n)
    const end = start + BigInt(Math.floor(this.random() * 600)) * (HOUR / 60n)
    const tags: Tags = this.random() < 0.5 ? { host: this.pick(HOSTS) } : {}
    const answer = await ask('POST', '/api/v1/delete', `{"measurement":"cpu","tags":${JSON.stringify(tags)},"start":${start},"end":${end}}`)
    if (answer.status !== 200 && answer.status !== 404) throw new Error(answer.body)
    for (const [key, point] of this.points)
      if (point.time >= start && point.time <= end && (tags.host === undefined || point.tags.host === tags.host)) this.points.delete(key)
    return `a delete of ${tags.host ?? 'all'} from ${start} to ${end}`
  }

  private async drop(ask: Ask): Promise<string> {
    const answer = await ask('DELETE', '/api/v1/measurements/cpu')
    if (answer.status === 404) return 'no drop'
    if (answer.status !== 204) throw new Error(answer.body)
    this.dropped.push(new Map(this.points))
    this.points.clear()
    return 'a drop'
  }

  private async restore(ask: Ask): Promise<string> {
    const answer = await ask('POST', '/api/v1/measurements/cpu/restore')
    if (answer.status === 404 || answer.status === 409) return 'no restore'
    if (answer.status !== 204) throw new Error(answer.body)
    for (const [key, point] of this.dropped.pop() as Map<string, Point>) this.points.set(key, point)
    return 'a restore'
  }

  private async refresh(ask: Ask): Promise<string> {
    const span = Number((this.newest - T0) / HOUR)
    const start = T0 + BigInt(Math.floor(this.random() * span)) * HOUR
    const end = start + BigInt(1 + Math.floor(this.random() * 30)) * HOUR
    const { name } = this.pick(this.tiers.filter(({ fails }) => fails === undefined))
    await good(ask('POST', `/api/v1/rollups/${name}/refresh?start=${start}&end=${end}`), 200)
    return `a refresh of ${name}`
  }
}

async function good(answer: Promise<{ status: number; body: string }>, status: number): Promise<string> {
  const { status: found, body } = await answer
  if (found !== status) throw new Error(`answered ${found}: ${body}`)
  return body
}

export async function read(ask: Ask, measurement: string): Promise<Row[]> {
  const { status, body } = await ask('POST', '/api/v1/svc/query', { measurement, limit: 100_000 })
  if (status === 404) return []
  if (status !== 200) throw new Error(body)
  const rows = JSON.parse(body.replace(/("timestamp":)(-?\d+)/g, '$1"$2"')) as { timestamp: string; tags: Tags; fields: Values }[]
  return rows.map(({ timestamp, tags, fields }) => ({ tags, time: BigInt(timestamp), values: fields }))
}

async function view(ask: Ask, name: string): Promise<Row[]> {
  const body = await good(ask('GET', `/api/v1/rollups/${name}/query`), 200)
  const { columns, rows } = JSON.parse(body.replace(/(\[)(-?\d{18,19})(,)/g, '$1"$2"$3')) as {
    columns: { name: string; data_type: string }[]
    rows: (string | number | null)[][]
  }
  return rows.map((row) => {
    const out: Row = { tags: {}, time: BigInt(row[0] as string), values: {} }
    for (const [i, { name, data_type: type }] of columns.entries()) {
      if (i === 0 || row[i] === null) continue
      if (type === 'string') out.tags[name] = row[i] as string
      else out.values[name] = row[i] as number
    }
    return out
  })
}

function differenceOf(found: readonly Row[], wanted: readonly Row[]): string | undefined {
  const lines = (rows: readonly Row[]) =>
    rows
      .map(({ tags, time, values }) => {
        const shown = Object.entries(values)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([name, value]) => `${name}=${Number(value.toPrecision(9))}`)
        return `${time} ${keyOf(tags)} ${shown.join(' ')}`
      })
      .sort()
  const [a, b] = [lines(found), lines(wanted)]
  const at = Array.from({ length: Math.max(a.length, b.length) }, (_, i) => i).find((i) => a[i] !== b[i])
  return at === undefined ? undefined : `row ${at} of ${a.length} is\n  ${a[at]}\nof ${b.length} wanted\n  ${b[at]}`
}
