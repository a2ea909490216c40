/**
 * Brings what is in the queue to the upstream: one request at a time, in the order of each namespace, so that the order of each series is kept, until each point is
 * taken, set aside for what the upstream says of it, or dropped by the bounds of the queue. Nothing that time or an operator may mend is given up, but where too many
 * namespaces are refused (parked.ts), and nothing else holds up what comes behind it.
 *
 * There are two lanes, which take turns. The main lane goes through the queue and passes over what belongs to parked namespaces. A namespace is parked when the
 * upstream takes nothing of it for now; it has a place of its own, from which its records alone are sent once it is taken again, up to the place of the main lane:
 * there it is parked no more.
 */
import type { Connector } from 'svcdb'
import { SampledLog } from 'svcdb/lib/source'
import { type Batch, Delivery, type DeliveryOptions, FIRST_PAUSE_MS, type Refusal, reasonOf } from './delivery.ts'
import { Link } from './link.ts'
import { isProbed, Parked, type ParkedNamespace } from './parked.ts'
import { rowsOf } from './points.ts'
import { notePlaces, type SavedPlaces } from './position-file.ts'
import type { Queue } from './queue.ts'
import { isUnreadable } from './queue-file.ts'
import type { Choose, ReadRecord } from './queue-types.ts'
import { CLOSED_LOOK_MS } from './send-times.ts'
import type { QueuePosition, RecordCount } from './sender-positions.ts'
import { verdictOf } from './upstream.ts'

/** How often a place is noted on the disk; what is sent again after a crash is what was sent within it. */
const NOTE_MS = 1000
/** How often a place that the disk does not give back is read, with pauses of a minute in all, until it is passed over. */
const READ_TRIES = 8
/** Of the queue, to find the record of a probe. */
const PROBE_BYTES = 65_536
/** Of records that wait for more of them. */
const NEVER = Number.POSITIVE_INFINITY

interface SenderOptions extends DeliveryOptions {
  /** Of the place in the queue, and of files. */
  name: string
  queue: Queue
  /** Where its positions are noted. */
  path: string
  /** What names the queue to upstreams. */
  identity: string
  /** The number of this start. */
  life: number
}

export class Sender {
  readonly name: string
  readonly link = new Link()
  private readonly options: SenderOptions
  private readonly stopping = new AbortController()
  private readonly delivery: Delivery
  private readonly parked: Parked
  private readonly held: SampledLog
  private running: Promise<void> | undefined
  /** Of the main lane. */
  private position: QueuePosition
  private noted = 0
  /** A place has changed since. */
  private moved = true
  /** It could not be noted: that is said once. */
  private unnoted = false
  private lastSent = Number.NEGATIVE_INFINITY
  /** The last turn was of the main lane. */
  private wasMain = false
  /** Tries to read a place that could not be, by parked namespace; undefined = the main lane. */
  private readonly unread = new Map<string | undefined, number>()
  /** A file that could not be read everywhere: its records are read one by one, so that one costs no other. */
  private worn: number | undefined

  /** @param saved by `savedPlaces`. */
  constructor(options: SenderOptions, saved: SavedPlaces | undefined) {
    const { name, queue, config, log, monotonic } = options
    this.options = options
    this.name = name
    this.delivery = new Delivery(options, this.link, this.signal)
    this.parked = new Parked(config.max_pause_secs * 1000, config.max_parked_namespaces)
    this.held = new SampledLog(log, monotonic)
    const exact = saved?.stopped !== undefined && saved.stopped === options.life - 1
    this.position = queue.attach(name, saved?.at, exact)
    for (const { namespace, place } of saved?.parked ?? []) this.parked.park(namespace, place)
    this.parked.join(this.position)
    this.delivery.flows = this.parked.size === 0
    for (const [file, count] of saved?.passed ?? []) queue.positions.pass(name, file, count)
    queue.positions.comeBackTo(name, this.parked.from)
    if (exact) queue.forgetPassed(name)
  }

  start(): void {
    this.running = Promise.all([this.reach(), this.run()]).then(() => {})
  }

  async stop(): Promise<void> {
    this.stopping.abort()
    this.link.stopped()
    await this.running
    await this.note(this.options.life)
  }

  get parkedNamespaces(): number {
    return this.parked.size
  }

  /** What waits of parked namespaces. */
  get parkedRecords(): number {
    return [...this.options.queue.positions.passed(this.name).values()].reduce((sum, { records }) => sum + records, 0)
  }

  /** How the parked namespaces do, as those of connectors to brokers; undefined while there are none. */
  parkedStatus(name: string): ReturnType<Connector['status']> | undefined {
    const all = [...this.parked.all()]
    if (all.length === 0) return undefined
    const refused = all.filter(({ tries }) => tries > 0)
    const worst = refused.find(({ mend }) => mend) ?? refused[0]
    const lastError = worst === undefined ? undefined : `${refused.length} namespaces wait, "${worst.namespace}" for: ${worst.error}`
    const refusal = { status: worst?.mend ? { failed: lastError ?? '' } : ('reconnecting' as const), up: false }
    const { status, up } = worst === undefined ? this.link.status(name) : refusal
    const none = { received: 0, acknowledged: 0, deadLettered: 0, returned: 0, points: 0, pointsRefused: 0, pointsPerSecond: 0 }
    return { name, status, up, lastError, inFlight: { messages: 0, bytes: 0 }, ...none }
  }

  /** Looks whether the upstream is there before there is something to send, so that the link says so. Never rejects. */
  private async reach(): Promise<void> {
    const { times, now, config } = this.options
    for (let pause = FIRST_PAUSE_MS; !this.signal.aborted && this.link.untried; ) {
      if (!times.isOpen(now())) {
        await this.pause(CLOSED_LOOK_MS)
        continue
      }
      const { upstream } = this.delivery
      try {
        await Promise.race([upstream.reach(), aborted(this.signal)])
        if (this.link.untried && !this.signal.aborted) this.link.reached()
      } catch (error) {
        if (this.link.untried && !this.signal.aborted) this.link.unreached(`${upstream.name}: ${(error as Error).message}`)
        await this.pause(pause)
        pause = Math.min(pause * 2, config.max_pause_secs * 1000)
      }
    }
  }

  private get signal(): AbortSignal {
    return this.stopping.signal
  }

  private async run(): Promise<void> {
    while (!this.signal.aborted) {
      let parked: ParkedNamespace | undefined
      try {
        parked = await this.nextTurn()
        if (this.signal.aborted) return
        await (parked === undefined ? this.sendMain() : this.sendParked(parked))
        this.wasMain = parked === undefined
        if (this.moved && this.options.monotonic() - this.noted > NOTE_MS) await this.note()
      } catch (error) {
        if (this.signal.aborted) return
        await this.diskFailed(error as NodeJS.ErrnoException, parked)
      }
    }
  }

  /** Waits for something that is due. @returns the parked namespace whose turn it is, undefined for the main lane or when the signal ends. */
  private async nextTurn(): Promise<ParkedNamespace | undefined> {
    const { times, now, monotonic } = this.options
    while (!this.signal.aborted) {
      const mainIn = this.mainIn()
      const parkedIn = this.parked.dueIn(monotonic())
      const soonest = Math.min(mainIn, parkedIn)
      if (soonest > 0) await this.idle(soonest)
      else if (!times.isOpen(now())) await this.pause(CLOSED_LOOK_MS)
      else if (parkedIn <= 0 && (mainIn > 0 || this.wasMain)) return this.parked.next(monotonic())
      else return undefined
    }
    return undefined
  }

  /** Milliseconds until the main lane has something to send: points wait for more of them, unless there are many; infinite where none wait. */
  private mainIn(): number {
    const { queue, config, monotonic } = this.options
    const { records, points } = queue.behind(this.position)
    if (records === 0) return NEVER
    return points >= config.batch_points ? 0 : this.lastSent + config.batch_interval_ms - monotonic()
  }

  /** Pauses, but for no longer than until there is something for an idle main lane. */
  private async idle(ms: number): Promise<void> {
    const { queue, pause } = this.options
    if (queue.behind(this.position).records > 0) return this.pause(ms)
    if (ms === NEVER) return queue.wait(this.position, this.signal)
    const other = new AbortController()
    const signal = AbortSignal.any([this.signal, other.signal])
    await Promise.race([queue.wait(this.position, signal), pause(ms, signal)])
    other.abort()
  }

  private async sendMain(): Promise<void> {
    const { queue, config, monotonic } = this.options
    let wanted: string | undefined
    const fits = this.fitting()
    const choose: Choose = ({ namespace, points }) => {
      if (this.parked.has(namespace)) return 'pass'
      wanted ??= namespace
      return namespace === wanted && fits(points) ? 'take' : 'end'
    }
    this.position = queue.present(this.position)
    const { records, next, passed } = await queue.read(this.position, this.worn === this.position.file ? 1 : config.batch_bytes, choose)
    this.unread.delete(undefined)
    if (records.length === 0) return this.advance(next, passed)
    const read = this.alike(records)
    const [{ record: first }] = read
    const last = read[read.length - 1]
    const batch = this.batchOf(read)
    const refusal = batch === undefined ? undefined : await this.delivery.send(batch)
    this.lastSent = monotonic()
    if (refusal === undefined) {
      if (batch !== undefined) this.parked.taken(first.namespace)
    } else if (this.parked.hasRoom(first.namespace)) {
      if (this.parked.size === 0) this.delivery.flows = false
      const member = this.parked.park(first.namespace, this.position)
      this.refused(member, read, refusal)
      queue.positions.pass(this.name, last.next.file, unsettled(read, member))
    } else await this.delivery.giveUp(batch as Batch, refusal)
    this.advance(last.next, last.passed)
  }

  /** Sends the next records of a parked namespace, as far as the main lane is. */
  private async sendParked(member: ParkedNamespace): Promise<void> {
    const { queue, config } = this.options
    const { namespace, place, rows } = member
    const probe = isProbed(member)
    const others = new Set<ParkedNamespace>()
    let found = false
    const fits = this.fitting()
    const choose: Choose = (head) => {
      if (probe && found) return 'end'
      if (head.sequence >= this.position.sequence) return 'pass'
      if (head.namespace === namespace) {
        found = true
        return fits(head.points) ? 'take' : 'end'
      }
      const other = this.parked.get(head.namespace)
      if (other !== undefined && head.sequence >= other.place.sequence) others.add(other)
      return 'pass'
    }
    const bytes = probe ? Math.min(PROBE_BYTES, config.batch_bytes) : config.batch_bytes
    const { records, next } = await queue.read(place, this.worn === place.file ? 1 : bytes, choose)
    this.unread.delete(namespace)
    const readTo = next.sequence < this.position.sequence ? next : this.position
    // Of those that have no record in what was read, it need not be read again.
    for (const other of this.parked.all()) {
      if (other !== member && !others.has(other) && other.place.sequence >= place.sequence && other.place.sequence < readTo.sequence) move(other, readTo)
    }
    if (records.length === 0) {
      move(member, readTo)
      return this.parkedMoved()
    }
    const read = this.alike(records)
    const last = read[read.length - 1]
    const batch = this.batchOf(read)
    const from = read[0].record.sequence === place.sequence ? rows : 0
    const refusal = batch === undefined ? undefined : await this.delivery.send(batch, from, probe)
    if (refusal !== undefined) {
      this.refused(member, read, refusal)
      queue.positions.pass(this.name, last.next.file, less(countOf(read), unsettled(read, member)))
    } else {
      move(member, !probe && read.length === records.length ? readTo : last.next)
      if (batch !== undefined) {
        this.parked.taken(namespace)
        this.parked.flows(member)
      }
      queue.positions.pass(this.name, last.next.file, less(countOf(read), NONE))
    }
    this.parkedMoved(member.place.sequence !== place.sequence)
  }

  /** The namespace waits from its first row on that is not settled. */
  private refused(member: ParkedNamespace, read: ReadRecord[], { error, settled }: Refusal): void {
    const { monotonic } = this.options
    const { upstream } = this.delivery
    let index = 0
    let rows = settled
    while (rows >= read[index].record.points) rows -= read[index++].record.points
    const { record, bytes, next } = read[index]
    member.place = { file: next.file, offset: next.offset - bytes, sequence: record.sequence, points: record.before }
    member.rows = rows
    const mend = verdictOf(error) === 'mend'
    if (member.error === undefined) {
      const text = mend
        ? 'the upstream refuses a namespace: its configuration has to be mended, here or there; its points wait, others go on'
        : 'the upstream takes no points of a namespace for now; they wait, others go on'
      this.held.warn({ upstream: upstream.name, namespace: member.namespace, code: reasonOf(error), error: error.message }, text)
    }
    this.parked.refused(member, { error: `${upstream.name}: ${error.message}`, mend, retryAfterMs: (error.retryAfterSecs ?? 0) * 1000 }, monotonic())
  }

  /** What the upstream says is dealt with where it says it. */
  private async diskFailed(error: NodeJS.ErrnoException, parked: ParkedNamespace | undefined): Promise<void> {
    const { log, queue } = this.options
    if (!isUnreadable(error)) {
      log.error({ err: error, upstream: this.name }, 'cannot go on with the queue; trying again')
      return this.pause(CLOSED_LOOK_MS)
    }
    const place = parked?.place ?? this.position
    this.worn = place.file
    const tries = (this.unread.get(parked?.namespace) ?? 0) + 1
    this.unread.set(parked?.namespace, tries)
    if (tries < READ_TRIES) {
      log.error({ err: error, upstream: this.name, tries }, 'cannot read the queue; trying again')
      return this.pause(FIRST_PAUSE_MS * 2 ** (tries - 1))
    }
    this.unread.delete(parked?.namespace)
    const behind = await queue.passUnread(place, error.message)
    if (parked === undefined) return this.advance(behind, NONE)
    move(parked, behind)
    this.parkedMoved()
  }

  /** Whether one record more goes in the same request. No more are read: equal points take next to nothing of the queue, and much memory. */
  private fitting(): (points: number) => boolean {
    let all = 0
    return (points) => {
      const fits = all === 0 || all + points <= this.options.config.batch_points
      if (fits) all += points
      return fits
    }
  }

  /** The first records that go in one request. */
  private alike(records: ReadRecord[]): ReadRecord[] {
    const [first] = records
    const [old, late] = [this.isOld(first), this.isLate(first)]
    let points = 0
    const end = records.findIndex((one, i) => {
      points += one.record.points
      if (i === 0) return false
      return (
        points > this.options.config.batch_points ||
        one.record.namespace !== first.record.namespace ||
        one.record.backfill !== first.record.backfill ||
        this.isOld(one) !== old ||
        this.isLate(one) !== late
      )
    })
    return end < 0 ? records : records.slice(0, end)
  }

  private isLate({ record }: ReadRecord): boolean {
    return this.options.now() - record.takenMs > this.options.config.backfill_after_secs * 1000
  }

  private isOld({ record }: ReadRecord): boolean {
    return this.options.queue.ages.isTooOld(record)
  }

  /** What is to be sent of records that are alike; undefined for those that are dropped for their age. */
  private batchOf(read: ReadRecord[]): Batch | undefined {
    const [first] = read
    if (this.isOld(first)) {
      this.options.metrics.dropped.inc({ reason: 'age' }, countOf(read).points)
      return undefined
    }
    const { namespace, backfill, sequence, takenMs } = first.record
    // The queue of another edge may have the same name: one disk copied to many devices. Points of two are not one request.
    const sum = read.reduce((all, { checksum }) => all ^ checksum, 0) >>> 0
    const key = `${this.options.identity}/${sequence}-${read[read.length - 1].record.sequence}/${takenMs}/${sum.toString(16)}`
    return { rows: rowsOf(read.map(({ record }) => record)), namespace, backfill: backfill || this.isLate(first), key }
  }

  /** @param passed on the way, in the file of the new place. */
  private advance(next: QueuePosition, passed: RecordCount): void {
    const { queue } = this.options
    queue.positions.pass(this.name, next.file, passed)
    queue.positions.comeBackTo(this.name, this.parked.from)
    this.position = next
    this.moved = true
    queue.advance(this.name, next)
  }

  private parkedMoved(moved = true): void {
    const { queue } = this.options
    const before = this.parked.size
    this.parked.join(this.position)
    this.moved ||= moved
    queue.positions.comeBackTo(this.name, this.parked.from)
    queue.advance(this.name, this.position)
    if (before > 0 && this.parked.size === 0) this.options.log.info({ upstream: this.delivery.upstream.name }, 'no namespace waits for the upstream any more')
  }

  private async pause(ms: number): Promise<void> {
    await this.options.pause(ms, this.signal)
  }

  /** Never rejects: without it more is sent again after a restart, and nothing has to wait for that. */
  private async note(stopped?: number): Promise<void> {
    const { path, queue, monotonic, log } = this.options
    this.noted = monotonic()
    this.moved = false
    const passed = queue.positions.passed(this.name)
    // Further on where a bound has dropped what was there.
    const at = queue.positions.at(this.name)
    try {
      await notePlaces(path, { at, parked: [...this.parked.all()], passed, stopped }, this.parked.from)
      this.unnoted = false
    } catch (error) {
      this.moved = true
      if (!this.unnoted) log.warn({ err: error }, 'cannot note how far the upstream is; after a restart what it has is sent again')
      this.unnoted = true
    }
  }
}

const NONE: RecordCount = { records: 0, points: 0 }

const less = (count: RecordCount, from: RecordCount): RecordCount => ({ records: from.records - count.records, points: from.points - count.points })

const countOf = (read: readonly ReadRecord[]): RecordCount => ({ records: read.length, points: read.reduce((sum, { record }) => sum + record.points, 0) })

/** Those that a namespace which is refused has left. */
const unsettled = (read: readonly ReadRecord[], { place }: ParkedNamespace): RecordCount =>
  countOf(read.filter(({ record }) => record.sequence >= place.sequence))

function move(member: ParkedNamespace, place: QueuePosition): void {
  member.place = place
  member.rows = 0
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}
