/** Beside the data: the newest samples of fields of one series, in order of time. */
import type { ColumnChunk, FieldInfo, Job, Matcher, Reader } from 'svcdb'
import type { SampleRequest } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'

export interface ReadArgs {
  namespace: string
  measurement: string
  fields: readonly string[]
  /** That the series has; others may be there too, unless it is `exact`. */
  tags: Readonly<Record<string, string>>
  exact: boolean
  start?: bigint
  end?: bigint
  /** Rows, the newest of them; 0 = only the time of the newest sample, which is then the only row and without values. */
  most: number
  /** The fields are known not to be encrypted. */
  plain: boolean
}

export interface ReadSeries {
  /** All of the series. */
  tags: Record<string, string>
  times: BigInt64Array
  /** NaN = there is no value, or none that is finite. */
  columns: Float64Array[]
  /** Rows of the range, as many as were looked at: more than `most` of them say that there are more, and not how many. */
  found: number
}

const NUMBERS = ['float64', 'int64', 'uint64', 'bool', 'decimal']
/** Named in messages. */
const SHOWN = 3

const read: Job<ReadArgs, ReadSeries | undefined> = async (reader, args, { signal }) => {
  const { namespace, measurement, fields, tags, most } = args
  const known = (await reader.schema(namespace)).find(({ name }) => name === measurement)
  if (known === undefined) throw new SvcError('NOT_FOUND', `there is no measurement "${measurement}"; GET /api/v1/measurements lists those there are`)
  for (const field of fields) requireNumbers(measurement, field, known.fields)
  if (!args.plain) requirePlain(measurement, fields, (await reader.measurements(namespace, measurement)).at(0)?.fields ?? [])
  const range = { ...(args.start === undefined ? {} : { start: args.start }), ...(args.end === undefined ? {} : { end: args.end }) }
  const given = Object.entries(tags).map(([tag, value]): Matcher => ({ tag, op: '=', value }))
  const series = await choose(reader, { namespace, measurement, fields, matchers: given, ...range }, args.exact ? tags : undefined)
  if (series === undefined) return undefined
  if (most === 0) return { tags: series.tags, times: BigInt64Array.of(series.newest), columns: [], found: 1 }
  const matchers = [...given, ...series.others.map((tag): Matcher => ({ tag, op: '=', value: '' }))]
  const parts: Rows[] = []
  let found = 0
  for (const window of windowsBack(series.newest, range, () => found * MUCH < most)) {
    const rows = new NewestRows(fields.length, most - found)
    for await (const chunk of reader.scan({ namespace, measurement, fields: [...fields], matchers, ...window })) {
      signal.throwIfAborted()
      if (!sameTags(chunk.tags, series.tags)) continue
      const columns = fields.map((name) => chunk.columns.find((column) => column.name === name))
      if (columns.every((column) => column === undefined)) continue
      rows.add(
        chunk.times,
        columns.map((column) => (column === undefined ? undefined : numbersOf(column))),
      )
    }
    found += rows.found
    parts.unshift(rows.result())
    // One more says that there are more.
    if (found > most) break
  }
  return found === 0 ? undefined : { tags: series.tags, ...joined(parts), found }
}

export default read

interface Range {
  start?: bigint
  end?: bigint
}

interface Rows {
  times: BigInt64Array
  columns: Float64Array[]
}

/** The first window; each one before it is twice as long, or longer where little was found. */
const WINDOW = 3_600_000_000_000n
const MUCH = 8

/** From the newest sample back to the start: what is enough is read, and a billion samples before it are not. @param newest to the millisecond. @param few were found so far. */
function* windowsBack(newest: bigint, { start, end }: Range, few: () => boolean): Generator<Range> {
  let to = end !== undefined && end < newest + MS ? end : newest + MS
  for (let length = WINDOW; start === undefined || to > start; length *= few() ? BigInt(MUCH) : 2n) {
    const from = to - length
    if (start !== undefined && from <= start) return yield { start, end: to }
    if (from <= OLDEST) return yield { end: to }
    yield { start: from, end: to }
    to = from
  }
}

function joined(parts: readonly Rows[]): Rows {
  if (parts.length === 1) return parts[0]
  const length = parts.reduce((sum, { times }) => sum + times.length, 0)
  const times = new BigInt64Array(length)
  const columns = parts[0].columns.map(() => new Float64Array(length))
  let at = 0
  for (const part of parts) {
    times.set(part.times, at)
    for (const [c, column] of part.columns.entries()) columns[c].set(column, at)
    at += part.times.length
  }
  return { times, columns }
}

interface Chosen {
  /** All of the series. */
  tags: Record<string, string>
  /** Tags that it does not have, and others do that the matchers select. */
  others: string[]
  /** Time of its newest sample, to the millisecond. */
  newest: bigint
}

const MS = 1_000_000n
const OLDEST = -(2n ** 63n)

/** @param exact all tags of the series that is meant; absent = the only one. @throws INVALID_REQUEST for several. */
async function choose(
  reader: Reader,
  { fields, start, end, ...request }: Omit<SampleRequest, 'field'> & { fields: readonly string[] },
  exact: Readonly<Record<string, string>> | undefined,
): Promise<Chosen | undefined> {
  const range = {
    ...(start === undefined ? {} : { start: start - (((start % MS) + MS) % MS) }),
    ...(end === undefined ? {} : { end: end + ((MS - (((end % MS) + MS) % MS)) % MS) }),
  }
  const found = new Map<number, { tags: Record<string, string>; newest: bigint }>()
  const names = new Set<string>()
  for (const field of fields) {
    const { series, tags, blocks } = await reader.samples({ ...request, field, ...range, newestOnly: true })
    for (const name of tags.keys()) names.add(name)
    for await (const { first, starts, times } of blocks()) {
      for (let i = 0; i + 1 < starts.length; i++) {
        if (starts[i + 1] === starts[i]) continue
        const number = series[first + i]
        const time = BigInt(times[starts[i + 1] - 1]) * MS
        const before = found.get(number)
        found.set(number, { tags: before?.tags ?? recordOf(tags.at(first + i)), newest: before !== undefined && before.newest > time ? before.newest : time })
      }
    }
  }
  const all = [...found].sort(([a], [b]) => a - b).map(([, each]) => each)
  const candidates = exact === undefined ? all : all.filter(({ tags }) => sameTags(tags, exact))
  if (candidates.length > 1) {
    const shown = candidates
      .slice(0, SHOWN)
      .map(({ tags }) => JSON.stringify(tags))
      .join(', ')
    throw new SvcError(
      'INVALID_REQUEST',
      `several series of "${request.measurement}" have these tags: ${shown}${candidates.length > SHOWN ? ' and more' : ''}; name tags that one series has`,
    )
  }
  const [one] = candidates
  return one === undefined ? undefined : { ...one, others: [...names].filter((name) => !Object.hasOwn(one.tags, name)) }
}

const recordOf = (pairs: readonly string[]): Record<string, string> =>
  Object.fromEntries(Array.from({ length: pairs.length / 2 }, (_, i) => [pairs[2 * i], pairs[2 * i + 1]]))

function sameTags(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && a[name] === b[name])
}

function requireNumbers(measurement: string, name: string, fields: readonly FieldInfo[]): void {
  const field = fields.find((each) => each.name === name)
  if (field === undefined)
    throw new SvcError('NOT_FOUND', `measurement "${measurement}" has no field "${name}"; it has ${fields.map((each) => `"${each.name}"`).join(', ')}`)
  if (!NUMBERS.includes(field.type)) throw new SvcError('INVALID_REQUEST', `field "${name}" of "${measurement}" holds ${field.type}, and models are of numbers`)
}

function requirePlain(measurement: string, names: readonly string[], fields: readonly FieldInfo[]): void {
  const encrypted = fields.find(({ name, encrypted }) => encrypted === true && names.includes(name))
  if (encrypted !== undefined)
    throw new SvcError('INVALID_REQUEST', `field "${encrypted.name}" of "${measurement}" is encrypted, and what is computed from it would be kept in the clear`)
}

function numbersOf({ type, values, validity, scale = 0 }: ColumnChunk): Float64Array {
  const unit = 10 ** -scale
  const out = new Float64Array(values.length)
  for (let i = 0; i < out.length; i++) {
    if (validity !== undefined && validity[i] === 0) out[i] = Number.NaN
    else if (type === 'decimal') out[i] = Number((values as bigint[])[i]) * unit
    else out[i] = Number((values as Float64Array)[i])
    if (!Number.isFinite(out[i])) out[i] = Number.NaN
  }
  return out
}

/** Keeps the last `most` rows that it is given; grows as it has to. */
class NewestRows {
  found = 0
  private readonly most: number
  private times: BigInt64Array<ArrayBuffer> = new BigInt64Array(1024)
  private columns: Float64Array<ArrayBuffer>[]
  private length = 0

  constructor(columns: number, most: number) {
    this.most = most
    this.columns = Array.from({ length: columns }, () => new Float64Array(1024))
  }

  add(times: BigInt64Array, columns: readonly (Float64Array | undefined)[]): void {
    for (let i = 0; i < times.length; i++) {
      if (columns.every((column) => column === undefined || Number.isNaN(column[i]))) continue
      if (this.length === this.times.length) this.makeRoom()
      this.times[this.length] = times[i]
      for (const [c, column] of columns.entries()) this.columns[c][this.length] = column === undefined ? Number.NaN : column[i]
      this.length++
      this.found++
    }
  }

  result(): Rows {
    const from = Math.max(0, this.length - this.most)
    return { times: this.times.slice(from, this.length), columns: this.columns.map((column) => column.slice(from, this.length)) }
  }

  /** Twice as much, or, where that is more than is wanted, without the oldest half. */
  private makeRoom(): void {
    const { length, most } = this
    if (length >= 2 * most) {
      this.times.copyWithin(0, length - most)
      for (const column of this.columns) column.copyWithin(0, length - most)
      this.length = most
      return
    }
    const size = Math.min(length * 2, Math.max(2 * most, 1024))
    const times = new BigInt64Array(size)
    times.set(this.times)
    this.times = times
    this.columns = this.columns.map((column) => {
      const wider = new Float64Array(size)
      wider.set(column)
      return wider
    })
  }
}
