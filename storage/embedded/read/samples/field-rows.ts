/**
 * Rows of a measurement by fields, for those who want rows: it says where samples are not all there is to them, because a row has no value of
 * a field, or a time within a millisecond. Rows stream through: the times of some series are decoded together, values a block and a field at a time.
 */
import { Turn } from 'svcdb/lib/event-loop'
import { encryptedField } from '../../encryption/open.ts'
import { partsOfRuns, RUN } from '../../memtable/runs.ts'
import type { LaneBlock } from '../../sql/index.ts'
import type { FieldDef, MeasurementDef } from '../../threads/definitions.ts'
import type { MemtablePart, Snapshot } from '../../threads/state.ts'
import { type RelationContext, sourcesOf } from '../relation.ts'
import type { Interval, Source } from '../sources.ts'
import { eachCommon } from './gather.ts'
import { timeBound } from './mask-times.ts'
import { millisecondRange } from './millisecond-range.ts'
import type { Frame } from './page-block.ts'
import type { RowBlock, RowValues } from './row-block.ts'
import { RowRuns } from './row-runs.ts'
import { Scratch } from './scratch.ts'
import type { AnyScope } from './segment-blocks.ts'
import { expectedSamples, isLive, isPacked, SMALL_SHARE } from './select.ts'
import { SelectedTags } from './tag-sets.ts'

const NS_PER_MS = 1_000_000n
/** Of a row that is kept, and of a field of it: an integer, mostly. */
const TIME_BYTES = 8
const VALUE_BYTES = 4
const LAST_START = 2n ** 63n - NS_PER_MS
/** Looks at rows before it is asked whether a turn is over: 4 to 8 ms where each row is a run of its own. */
const LOOKS = 1 << 19
/** Values that are held of the fields of a block, which parts of it ask for again and again: 16 MB. */
const HELD_VALUES = 1 << 21

interface FieldRowsRequest {
  measurement: MeasurementDef
  /** Nanoseconds, inclusive. */
  time: Interval
  /** Ascending; all when absent. */
  series?: Int32Array
  signal: AbortSignal | undefined
}

interface RowScan {
  fields: readonly FieldDef[]
  /** Rows without a value of the one field are left out. */
  sparse: boolean
  /** How often a row is looked at, about. */
  passes: number
  /** @returns false once it wants no more. */
  visit(rows: LaneBlock): boolean
}

export class FieldRows {
  readonly series: Int32Array
  readonly tags: SelectedTags
  private readonly context: RelationContext
  private readonly request: FieldRowsRequest
  private readonly all: Int32Array
  private readonly sources: Source[]
  private readonly question: number

  constructor(context: RelationContext, snapshot: Snapshot, request: FieldRowsRequest) {
    const { measurement, time } = request
    const { series: view } = context.state
    this.context = context
    this.question = context.sampleBlocks.questionOf(snapshot)
    this.request = request
    this.all = view.of(measurement.id)
    this.series = request.series ?? this.all
    this.tags = new SelectedTags(view, measurement.id, this.series, request.series === undefined ? undefined : positionsOf(this.series, this.all))
    this.sources = this.series.length === 0 || time[0] > time[1] ? [] : sourcesOf(context.state, snapshot, measurement, time, this.series)
  }

  /** Nanoseconds; no row is outside. Undefined when there are none. */
  span(): Interval | undefined {
    if (this.sources.length === 0) return undefined
    let [lo, hi] = [this.sources[0].minTime, this.sources[0].maxTime]
    for (const { minTime, maxTime } of this.sources) {
      if (minTime < lo) lo = minTime
      if (maxTime > hi) hi = maxTime
    }
    const { time } = this.request
    return [lo > time[0] ? lo : time[0], hi < time[1] ? hi : time[1]]
  }

  /** Whether some of the rows are stored without the field, or with values that only a key can read. */
  lacks(field: FieldDef): boolean {
    const { keys } = this.context.duck.encrypted
    const segments = this.sources.flatMap(({ segment }) => segment ?? [])
    if (encryptedField(keys.columns, [field], segments) !== undefined) return true
    return this.sources.some(({ segment, memtable }) =>
      segment === undefined ? lacksIn(memtable!.part, field) : !segment.columns.some((column) => column.field === field.id),
    )
  }

  /** About how many rows there are, and whether the values of so many fields of theirs have room among the samples that are kept. */
  expected(fields: number): { rows: number; haveRoom: boolean } {
    const { all, series, context, request } = this
    if (this.sources.length === 0) return { rows: 0, haveRoom: true }
    const { samples, read } = expectedSamples(this.sources, all, request.time)
    const share = series.length / Math.max(1, all.length)
    return { rows: samples * share, haveRoom: context.sampleBlocks.holds(read * share * (TIME_BYTES + fields * VALUE_BYTES)) }
  }

  /** Calls back with all rows, each once. @returns false where samples do not tell all. @throws what reading segments throws; the signal's reason. */
  async scan(scan: RowScan): Promise<boolean> {
    const { context, series, sources, all } = this
    const { measurement, time, signal } = this.request
    const { sampleBlocks } = context
    if (sources.length === 0) return true
    const scratch = new Scratch(sampleBlocks.scratch)
    const scope: AnyScope = {
      context,
      measurement: measurement.id,
      field: scan.fields[0],
      range: time,
      all,
      signal,
      limit: Number.POSITIVE_INFINITY,
      question: this.question,
      scratch,
      whole: true,
    }
    scope.packed = scan.fields.length === 1 && isPacked(sources, series.length, scope, isLive(sources, scope) ? SMALL_SHARE : 1)
    // Samples of whole milliseconds lie in the range from its first whole one on.
    const range = millisecondRange([time[0] > LAST_START ? time[0] : time[0] + NS_PER_MS - 1n, time[1]])
    const { decoded } = expectedSamples(sources, all, time)
    const size = Math.max(1, Math.ceil((sampleBlocks.decodedSamples * all.length) / Math.max(all.length, decoded)))
    for (let first = 0; first < series.length; first += size) {
      try {
        const read = await this.read(scan, series.subarray(first, first + size), first, range, scope)
        if (read !== true) return read === 'enough'
      } finally {
        scratch.release()
      }
    }
    return true
  }

  /** @returns whether to go on. */
  private async read(scan: RowScan, series: Int32Array, first: number, [lo, hi]: [number, number], scope: AnyScope): Promise<boolean | 'enough'> {
    const { sampleBlocks } = this.context
    const found: { source: Source; block: RowBlock }[] = []
    const rows = new RowRuns(series, first, lo, hi, scope.scratch)
    for (const blockSource of sampleBlocks.blockSources(this.sources)) {
      const read = await sampleBlocks.rows(blockSource, series, scan.fields, scan.sparse, scope)
      if (read === undefined) return false
      for (const block of read.blocks) {
        if (block.frame.rests !== undefined && hasRows(block.frame, series, millisecondRange([...scope.range]))) return false
        rows.add({ frame: block.frame, masks: read.masks })
        found.push({ source: blockSource.source, block })
      }
    }
    const scratch = new Scratch(sampleBlocks.scratch)
    const turn = new Turn(scope.signal)
    try {
      for (const [i, runs] of rows.finish().entries()) {
        if (runs.length === 0) continue
        const { source, block } = found[i]
        const values = new BlockValues(block, runs, scratch)
        for (const part of partsOf(runs, LOOKS / scan.passes)) {
          const visited = sampleBlocks.reading(source, () => visitBlock(scan, block, part, values))
          const told = visited instanceof Promise ? await visited : visited
          if (told !== true) return told ?? false
          if (turn.isOver) await turn.next()
        }
        if (found[i + 1]?.source !== source) block.close()
      }
      return true
    } finally {
      scratch.release()
      for (const { block } of found) block.close()
    }
  }
}

function partsOf(runs: Int32Array, most: number): Iterable<Int32Array> {
  let rows = 0
  for (let r = 0; r < runs.length && rows <= most; r += RUN) rows += runs[r + 2] - runs[r + 1]
  return rows <= most ? [runs] : partsOfRuns(runs, most)
}

/** The values of a block at all of its runs, by field: those that were read are there until others need the room. */
class BlockValues {
  private readonly block: RowBlock
  private readonly runs: Int32Array
  private readonly scratch: Scratch
  private readonly most: number
  private readonly held = new Map<number, RowValues>()

  constructor(block: RowBlock, runs: Int32Array, scratch: Scratch) {
    const { starts } = block.frame
    this.block = block
    this.runs = runs
    this.scratch = scratch
    this.most = Math.max(1, Math.floor(HELD_VALUES / starts[starts.length - 1]))
    scratch.release()
  }

  /** Undefined where some rows have none. */
  of(field: number): RowValues | undefined {
    const held = this.held.get(field)
    if (held !== undefined) return held
    if (this.held.size === this.most) {
      this.held.clear()
      this.scratch.release()
    }
    const values = this.block.values(field, this.runs, this.scratch)
    if (values !== undefined) this.held.set(field, values)
    return values
  }
}

function visitBlock({ fields, visit }: RowScan, block: RowBlock, runs: Int32Array, values: BlockValues): boolean | 'enough' {
  for (let field = 0; field < fields.length; field++) if (!block.dense(field) && values.of(field) === undefined) return false
  const rows = {
    get times() {
      return block.frame.times
    },
    runs,
    bounds: (field: number) => block.bounds(field),
    values: (field: number) => values.of(field) as RowValues,
  }
  return visit(rows) ? true : 'enough'
}

/** Whether rows of these series lie in the range of milliseconds, which both count. */
function hasRows({ series: own, starts, times, minTime, maxTime }: Frame, series: Int32Array, [lo, hi]: [number, number]): boolean {
  if (maxTime < lo || minTime > hi) return false
  let found = false
  eachCommon(series, own, (_, at) => {
    found ||= timeBound(times, lo, starts[at], starts[at + 1]) < timeBound(times, hi + 1, starts[at], starts[at + 1])
  })
  return found
}

function lacksIn({ chunks, counts }: MemtablePart, { id }: FieldDef): boolean {
  return chunks.some(({ columns }, i) => counts[i] > 0 && !columns.has(id))
}

export function positionsOf(series: Int32Array, all: Int32Array): Int32Array {
  const out = new Int32Array(series.length)
  eachCommon(series, all, (position, at) => (out[position] = at))
  return out
}
