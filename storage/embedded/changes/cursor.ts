/** A reader of changes: where it is, what it wants, and what it is looking at. */
import type { Change, ChangeCursor, ChangePosition, ChangeRequest, MeasurementFilter } from 'svcdb'
import { type Place, reaches, WHOLE, wanted } from '../../common/change-places.ts'
import { INT64_MAX, INT64_MIN } from '../../common/time.ts'
import type { TableRows } from '../wal/record.ts'
import type { ChangeLog, Entry, OtherEntry, RowsEntry } from './change-log.ts'
import type { LogReader } from './log-reader.ts'
import type { MeasurementName } from './names.ts'
import { type Group, groupsOf, rowsChanged, someWanted } from './rows.ts'

/** Rows handed out before others have a turn of the loop. */
const ROWS_A_TURN = 16_384

export class Cursor implements ChangeCursor {
  private readonly log: ChangeLog
  private readonly request: ChangeRequest
  private place: Place
  /** Of another history: what the reader is told first. */
  private foreign: ChangePosition | undefined
  private closed = false
  private waiting: (() => void) | undefined
  private isWanted: (measurement: string, namespace: string) => boolean
  /** What is known of measurements, by id. */
  private known = new Map<number, boolean>()
  private entry: RowsEntry | undefined
  private groups: Group[] = []
  private nextGroup = 0
  private sinceTurn = 0
  /** While it reads the log. */
  private reader: LogReader | undefined
  private target: number | undefined
  private reading = false
  /** Behind this sequence memory has all that it wants. */
  private readonly complete: number

  /** @param asked the place of the request. */
  constructor(log: ChangeLog, request: ChangeRequest, asked: (Place & { history: string }) | undefined) {
    this.log = log
    this.request = request
    this.isWanted = wanted(request.measurements)
    this.complete = log.skipped
    const end = { sequence: log.applied, part: WHOLE }
    this.place = asked === undefined ? end : { sequence: asked.sequence, part: asked.part }
    if (asked !== undefined && (asked.history !== log.history || !reaches(end, asked))) this.foreign = request.after
    this.closed = request.signal?.aborted === true
    request.signal?.addEventListener('abort', this.close, { once: true })
  }

  /** Sequence up to which it needs nothing in memory. */
  get needs(): number {
    // While it reads the log up to `target`, what comes behind that is to be found in memory.
    return this.target ?? behind(this.place)
  }

  get at(): number {
    return this.place.sequence
  }

  get behind(): number {
    // It is woken for what tells of something; what came since it waits tells of nothing.
    if (this.waiting !== undefined) return 0
    return Math.max(0, this.log.ready - this.place.sequence)
  }

  async position(): Promise<ChangePosition> {
    await this.log.kept()
    if (this.foreign !== undefined) return this.foreign
    const { ready } = this.log
    return this.log.position(this.place.sequence > ready ? { sequence: ready, part: WHOLE } : this.place)
  }

  select(measurements: MeasurementFilter | undefined): void {
    this.isWanted = wanted(measurements)
    this.known.clear()
  }

  async next(): Promise<IteratorResult<Change, undefined>> {
    while (!this.closed) {
      const change = this.nextInHand() ?? (await this.advance())
      if (change !== undefined && !this.closed) return { done: false, value: change }
    }
    return { done: true, value: undefined }
  }

  wake(): void {
    this.waiting?.()
    this.waiting = undefined
  }

  readonly close = (): void => {
    if (this.closed && this.waiting === undefined) return
    this.closed = true
    this.request.signal?.removeEventListener('abort', this.close)
    // Whoever has the change may still read it: its buffers are not used again.
    this.entry = undefined
    // A read that is under way closes it itself.
    if (!this.reading) this.reader?.close()
    this.reader = undefined
    this.log.ended(this)
    this.wake()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Change> {
    try {
      for (let next = await this.next(); !next.done; next = await this.next()) yield next.value
    } finally {
      this.close()
    }
  }

  /** The next change of the record in hand. */
  private nextInHand(): Change | undefined {
    const { entry, groups, log } = this
    if (entry === undefined) return undefined
    if (this.nextGroup === groups.length) {
      this.passed(entry.sequence)
      return undefined
    }
    const group = groups[this.nextGroup++]
    // Nothing follows in the record: its place is that behind all of it, which needs the record no more.
    const place = { sequence: entry.sequence, part: this.nextGroup === groups.length ? WHOLE : group.part }
    this.place = place
    const change = rowsChanged(group, entry.heap, entry.backfill, log.names)
    this.sinceTurn += change.rows
    return { ...change, sequence: place.sequence, position: log.position(place) }
  }

  /** Goes to the next record, or waits for it. @returns a change that needs no more than this. */
  private async advance(): Promise<Change | undefined> {
    const { log, place } = this
    if (this.sinceTurn >= ROWS_A_TURN) {
      this.sinceTurn = 0
      await log.turn()
      return undefined
    }
    if (this.foreign !== undefined || !log.has(place, this.complete)) return this.readBack()
    this.stopReading()
    const entry = log.next(place)
    if (entry !== undefined) return this.take(entry)
    if (log.ready > place.sequence) this.passed(log.ready)
    await this.wait()
    return undefined
  }

  /** The next record out of the log. */
  private async readBack(): Promise<Change | undefined> {
    const { log, place, foreign } = this
    if (this.reader === undefined) {
      this.target = log.ready
      const oldest = await log.oldest(this.complete)
      if (this.closed) return undefined
      if (foreign !== undefined || behind(place) < oldest) {
        this.foreign = undefined
        this.place = { sequence: oldest, part: WHOLE }
        return log.gap(foreign ?? log.position(place), this.place, foreign === undefined ? 'expired' : 'other_history')
      }
      this.reader = log.reader()
    }
    const until = log.ready
    if (until < place.sequence || (until === place.sequence && place.part === WHOLE)) {
      await this.wait()
      return undefined
    }
    this.target = until
    const { reader } = this
    this.reading = true
    const found = await log.underWay(reader.next(place, until)).finally(() => {
      this.reading = false
    })
    if (this.closed || reader !== this.reader) {
      reader.close()
      return undefined
    }
    if (found === 'end') this.passed(until)
    else if (found !== 'lost' && 'unreadable' in found) {
      this.passed(found.unreadable)
      return log.gap(log.position(place), this.place, 'damaged')
    } else if (found !== 'lost') {
      // Decoding costs by the row, wanted or not.
      this.sinceTurn += found.rows
      return this.take(found)
    } else {
      this.stopReading()
      // Removed meanwhile, so that the next try finds what is left; or it is there and cannot be read.
      if (log.has(place, this.complete) || behind(place) < (await log.oldest(this.complete))) return undefined
      this.place = { sequence: Math.max(place.sequence + 1, await log.behindFile(reader.at)), part: WHOLE }
      return log.gap(log.position(place), this.place, 'damaged')
    }
    return undefined
  }

  private wait(): Promise<void> {
    return new Promise((resolve) => {
      this.waiting = resolve
    })
  }

  private stopReading(): void {
    this.reader?.close()
    this.reader = undefined
    this.target = undefined
  }

  private take(entry: Entry): Change | undefined {
    this.sinceTurn++
    if (entry.tables === undefined) {
      this.passed(entry.sequence)
      return this.told(entry)
    }
    const { request, place } = this
    const groups = this.wantsKind('rows') ? groupsOf(entry.tables, this.wants, this.log.names) : []
    this.groups = place.sequence === entry.sequence ? groups.filter(({ part }) => part > place.part) : groups
    this.nextGroup = 0
    if (this.groups.length === 0 || request.signal?.aborted === true) this.passed(entry.sequence)
    else {
      this.entry = entry
      entry.users++
    }
    return undefined
  }

  /** A record has nothing for it: it passes that without being woken, if it waits and has looked at the newest record that is held. */
  moveOn(sequence: number, newestHeld: number): void {
    if (this.waiting !== undefined && this.reader === undefined && this.foreign === undefined && this.place.sequence >= newestHeld)
      this.place = { sequence, part: WHOLE }
  }

  /** Whether some of the rows are asked for. */
  wantsSome(tables: readonly TableRows[]): boolean {
    return this.wantsKind('rows') && someWanted(tables, this.wants, this.log.names)
  }

  private told({ sequence, owner, change }: OtherEntry): Change | undefined {
    const { namespace, name: measurement } = owner
    const placed = { position: this.log.position(this.place), sequence, namespace, measurement }
    if (!this.wants(owner)) return undefined
    if (change.kind !== 'delete') {
      const kind = change.kind === 'drop' ? 'measurement_dropped' : 'measurement_restored'
      return this.wantsKind(kind) ? { kind, ...placed } : undefined
    }
    const { names } = this.log
    if (!this.wantsKind('series_deleted')) return undefined
    // As its rows: of a namespace that is gone, perhaps.
    if (namespace !== '' && names.measurement(owner.id) === undefined) return undefined
    const { series } = change
    const listed = function* (): Generator<Record<string, string>> {
      for (const number of series ?? []) if (names.ownerOf(number) >= 0) yield names.tagsOf(number)
    }
    return { kind: 'series_deleted', ...placed, ...rangeOf(change.start, change.end), ...(series === null ? {} : { series: listed }) }
  }

  private wantsKind(kind: Change['kind']): boolean {
    return this.request.kinds?.includes(kind) ?? true
  }

  private readonly wants = (owner: MeasurementName): boolean => {
    let known = this.known.get(owner.id)
    if (known === undefined) {
      const { namespace } = this.request
      known = (namespace === undefined || namespace === owner.namespace) && this.isWanted(owner.name, owner.namespace)
      this.known.set(owner.id, known)
    }
    return known
  }

  private passed(sequence: number): void {
    this.letGo()
    this.place = { sequence, part: WHOLE }
    this.log.trim()
  }

  private letGo(): void {
    const { entry } = this
    this.entry = undefined
    this.groups = []
    if (entry !== undefined && --entry.users === 0 && entry.left) entry.release()
  }
}

/** The sequence up to which records are behind a place as a whole. */
const behind = ({ sequence, part }: Place): number => (part === WHOLE ? sequence : sequence - 1)

/** A delete's range as changes have it. */
function rangeOf(start: bigint, end: bigint): { start?: bigint; end?: bigint } {
  return { ...(start === INT64_MIN ? {} : { start }), ...(end === INT64_MAX ? {} : { end: end + 1n }) }
}
