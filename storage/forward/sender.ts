/**
 * Brings what is in the queue to the upstream: in order, one request at a time, so that the order of each series is kept, until each point is taken, set aside
 * for what the upstream says of it, or dropped by the bounds of the queue. Nothing that time or an operator may mend is given up, and nothing else holds up what
 * comes behind it.
 *
 * A request that was sent and not answered is sent again under the same key, which the upstream does not take twice; where it has forgotten the key, the same
 * points are written over themselves.
 */
import { readFile } from 'node:fs/promises'
import type { StorageContext } from 'svcdb'
import { replaceFile } from 'svcdb/lib/files'
import { type DeadLetters, patiently, SampledLog } from 'svcdb/lib/source'
import { Bandwidth } from './bandwidth.ts'
import type { ForwardConfig } from './config.ts'
import { measurementAt, setAside } from './dead-letter.ts'
import { asSvcError, CallError } from './grpc-client.ts'
import { Link } from './link.ts'
import type { ForwardMetrics } from './metrics.ts'
import { chosenOf, countOf, partOf, type Rows, rowsOf } from './points.ts'
import type { Queue, QueuePosition, ReadRecord } from './queue.ts'
import { isUnreadable } from './queue-file.ts'
import type { SendTimes } from './send-times.ts'
import { LAST_TRIES, Suspects } from './suspects.ts'
import { type Outcome, type RefusedRow, type Upstream, type Verdict, verdictOf } from './upstream.ts'

/** How often a place is noted on the disk; what is sent again after a crash is what was sent within it. */
const NOTE_MS = 1000
const CLOSED_LOOK_MS = 5000
/** How often a place that the disk does not give back is read, with pauses of a minute in all, until it is passed over. */
const READ_TRIES = 8
const FIRST_PAUSE_MS = 500
/** Of refused rows, that the upstream lists. */
const LISTED = 16
/** What is too old for the live window, and no more, has this code. */
const TOO_OLD = 'PARTIAL_WRITE'

export interface SenderOptions {
  /** Of the place in the queue, and of files. */
  name: string
  upstreams: Upstream[]
  queue: Queue
  config: ForwardConfig
  times: SendTimes
  letters: DeadLetters
  metrics: ForwardMetrics
  /** Where its place is noted. */
  path: string
  /** What names the queue to upstreams. */
  identity: string
  log: StorageContext['log']
  tracing: StorageContext['tracing']
  now(): number
  /** Ends early when the signal does, without an error. */
  pause(ms: number, signal: AbortSignal): Promise<void>
  /** The upstream has other types than are known here. */
  conflict(namespace: string, measurement: string): void
}

interface Batch {
  rows: Rows
  namespace: string
  backfill: boolean
  key: string
}

export class Sender {
  readonly name: string
  private readonly options: SenderOptions
  private readonly stopping = new AbortController()
  private running: Promise<void> | undefined
  private position: QueuePosition
  private noted = 0
  private lastSent = 0
  /** In use. */
  private current = 0
  private failingSince: number | undefined
  private switchedAt = 0
  private readonly bandwidth: Bandwidth
  readonly link = new Link()
  /** Tries to read the place that could not be. */
  private unread = 0
  /** A file that could not be read everywhere: its records are read one by one, so that one costs no other. */
  private worn: number | undefined
  private complained: string | undefined
  private readonly refusals: SampledLog

  /** @param saved by `savedPosition`. */
  constructor(options: SenderOptions, saved: QueuePosition | undefined) {
    this.options = options
    this.name = options.name
    this.refusals = new SampledLog(options.log, () => performance.now())
    this.bandwidth = new Bandwidth(options.config.max_bandwidth)
    this.position = options.queue.attach(options.name, saved)
  }

  start(): void {
    this.running = Promise.all([this.reach(), this.run()]).then(() => {})
  }

  async stop(): Promise<void> {
    this.stopping.abort()
    this.link.stopped()
    await this.running
    await this.note().catch((error) => this.options.log.warn({ err: error }, 'cannot note how far the upstream is; what it has is sent again'))
  }

  /** Looks whether the upstream is there before there is something to send, so that the link says so. Never rejects. */
  private async reach(): Promise<void> {
    const { times, now, config } = this.options
    for (let pause = FIRST_PAUSE_MS; !this.signal.aborted && this.link.untried; ) {
      if (!times.isOpen(now())) {
        await this.pause(CLOSED_LOOK_MS)
        continue
      }
      const upstream = this.upstream
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
    const { queue, config } = this.options
    while (!this.signal.aborted) {
      try {
        await queue.wait(this.position, this.signal)
        await this.dueTime()
        if (this.signal.aborted) return
        const { records, next } = await queue.read(this.position, this.worn === this.position.file ? 1 : config.batch_bytes)
        this.unread = 0
        if (records.length === 0) this.advance(next)
        else await this.deliver(this.alike(records))
        if (performance.now() - this.noted > NOTE_MS) await this.note()
      } catch (error) {
        if (this.signal.aborted) return
        await this.diskFailed(error as NodeJS.ErrnoException)
      }
    }
  }

  /** What the upstream says is dealt with where it says it. */
  private async diskFailed(error: NodeJS.ErrnoException): Promise<void> {
    const { log, queue } = this.options
    if (!isUnreadable(error)) {
      log.error({ err: error, upstream: this.name }, 'cannot go on with the queue; trying again')
      return this.pause(CLOSED_LOOK_MS)
    }
    this.worn = this.position.file
    if (++this.unread < READ_TRIES) {
      log.error({ err: error, upstream: this.name, tries: this.unread }, 'cannot read the queue; trying again')
      return this.pause(FIRST_PAUSE_MS * 2 ** (this.unread - 1))
    }
    this.unread = 0
    this.advance(await queue.passUnread(this.position, error.message))
  }

  /** Waits for a time at which points are sent, and for more of them, unless there are many. */
  private async dueTime(): Promise<void> {
    const { times, queue, config, now } = this.options
    while (!times.isOpen(now()) && !this.signal.aborted) await this.pause(CLOSED_LOOK_MS)
    const early = this.lastSent + config.batch_interval_ms - performance.now()
    if (early > 0 && queue.waitingFor(this.name).points < config.batch_points) await this.pause(early)
  }

  /** The first records that go in one request. */
  private alike(records: ReadRecord[]): ReadRecord[] {
    const [first] = records
    const late = this.isLate(first)
    let points = 0
    const end = records.findIndex((one, i) => {
      points += one.record.points
      if (i === 0) return false
      return (
        points > this.options.config.batch_points ||
        one.record.namespace !== first.record.namespace ||
        one.record.backfill !== first.record.backfill ||
        this.isLate(one) !== late
      )
    })
    return end < 0 ? records : records.slice(0, end)
  }

  private isLate({ record }: ReadRecord): boolean {
    return this.options.now() - record.takenMs > this.options.config.backfill_after_secs * 1000
  }

  private async deliver(read: ReadRecord[]): Promise<void> {
    const { config, identity, metrics, now } = this.options
    const last = read[read.length - 1]
    const oldest = config.max_age_secs > 0 ? now() - config.max_age_secs * 1000 : Number.NEGATIVE_INFINITY
    const young = read.filter(({ record }) => record.takenMs >= oldest)
    for (const { record } of read) if (record.takenMs < oldest) metrics.dropped.inc({ reason: 'age' }, record.points)
    if (young.length > 0) {
      const { namespace, backfill, sequence, takenMs } = young[0].record
      const key = `${identity}/${sequence}-${last.record.sequence}/${takenMs}`
      await this.send({ rows: rowsOf(young.map(({ record }) => record)), namespace, backfill: backfill || this.isLate(young[0]), key })
    }
    this.lastSent = performance.now()
    this.advance(last.next)
  }

  private advance(next: QueuePosition): void {
    this.position = next
    this.options.queue.advance(this.name, next)
  }

  /** Resolves when each row is written or set aside. @param lastTries of a suspect, after which it is set aside. @throws when the sender is stopped. */
  private async send(batch: Batch, lastTries?: number): Promise<void> {
    const { rows } = batch
    const count = countOf(rows)
    const most = this.options.config.batch_points
    const tooOld: number[] = []
    const suspects = new Suspects()
    let size = Math.min(count, most)
    for (let at = 0; at < count; ) {
      const to = Math.min(count, at + size)
      const chunk = partOf(rows, at, to)
      const request = { ...batch, rows: chunk, key: `${batch.key}/${at}-${to}${batch.backfill ? 'b' : ''}` }
      const outcome = await this.request(request, lastTries ?? suspects.tries)
      let done = to - at
      if (outcome instanceof CallError && lastTries === undefined && verdictOf(outcome) === 'broken') {
        suspects.searching = true
        if (done > 1) {
          size = Math.ceil(done / 2)
          continue
        }
        suspects.add({ rows: chunk, at })
        const then = suspects.conclude(to === count)
        if (then === 'again') {
          at = to - suspects.take().length
          size = Math.min(count - at, most)
          continue
        }
        if (then === 'guilty') await this.convict(suspects, batch)
        at = to
        continue
      }
      await this.convict(suspects, batch)
      suspects.taken()
      if (outcome instanceof CallError || (outcome.rejected > 0 && outcome.refused.length === 0)) {
        const refused = outcome instanceof CallError ? { code: outcome.code ?? 'BAD_REQUEST', message: outcome.message } : UNKNOWN
        if (done > 1) {
          size = Math.ceil(done / 2)
          continue
        }
        await this.refuse(chunk, [{ position: 0, ...refused }], batch.namespace)
      } else if (outcome.rejected > 0) {
        const { refused, rejected } = outcome
        // What is behind the last that is told is not known: it is sent once more.
        if (rejected > refused.length) done = refused[refused.length - 1].position + 1
        const old = batch.backfill ? [] : refused.filter(({ code }) => code === TOO_OLD)
        tooOld.push(...old.map(({ position }) => at + position))
        await this.refuse(
          chunk,
          refused.filter((one) => !old.includes(one)),
          batch.namespace,
        )
        size = rejected > refused.length ? Math.max(LISTED, size >> 2) : size
      } else size = Math.min(most, size * 2)
      at += done
    }
    // They were not too old when they were taken here.
    if (tooOld.length > 0) await this.send({ ...batch, rows: chosenOf(rows, tooOld), backfill: true })
  }

  private async convict(suspects: Suspects, batch: Batch): Promise<void> {
    for (const [i, { rows, at }] of suspects.take().entries()) await this.send({ ...batch, rows, key: `${batch.key}/again-${at}` }, i === 0 ? LAST_TRIES : 1)
  }

  private async refuse(rows: Rows, refused: RefusedRow[], namespace: string): Promise<void> {
    const { letters, metrics, now, conflict } = this.options
    if (refused.length === 0) return
    const attempt = () => setAside(letters, rows, refused, now(), namespace)
    // A full disk holds them up, and does not lose them.
    await patiently(attempt, { signal: this.signal, maxPauseMs: CLOSED_LOOK_MS, transient: () => true })
    this.link.refused(refused.length)
    for (const { code } of refused) metrics.setAside.inc({ upstream: this.upstream.name, code })
    for (const { code, position } of refused) if (code === 'SCHEMA_ERROR') conflict(namespace, measurementAt(rows, position))
    const [{ code, message }] = refused
    this.refusals.warn(
      { upstream: this.upstream.name, points: refused.length, code, error: message, file: letters.path },
      'points were refused by the upstream and set aside',
    )
  }

  private get upstream(): Upstream {
    return this.options.upstreams[this.current]
  }

  /** What the upstream makes of rows; a CallError that says that they are to be divided, or that it has failed over them so often. Waits for all else. @throws when the sender is stopped. */
  private async request(batch: Batch, tries: number): Promise<Outcome | CallError> {
    const { config, metrics, pause } = this.options
    let broken = 0
    let divided: CallError | undefined
    const outcome = await patiently(
      async () => {
        this.signal.throwIfAborted()
        await this.withinBandwidth()
        const upstream = this.chosen()
        const { connections, bytes } = upstream
        try {
          const send = () => upstream.write(batch.rows, batch.namespace, { backfill: batch.backfill, dedupKey: batch.key }, this.signal)
          const { tracing } = this.options
          const attributes = { 'svc.upstream': upstream.name, 'svc.rows': batch.rows.places.length / 3 }
          const outcome = await (tracing === undefined ? send() : tracing.operation('forward', send, { kind: 'client', attributes }))
          this.answered(upstream, outcome)
          return outcome
        } catch (error) {
          if (!(error instanceof CallError)) throw error
          const verdict = verdictOf(error)
          metrics.requests.inc({ upstream: upstream.name, outcome: verdict })
          if (verdict === 'divide' || (verdict === 'broken' && ++broken >= tries)) {
            divided = error
            return undefined
          }
          this.failed(upstream, error, verdict)
          throw asSvcError(error, 'OVERLOADED')
        } finally {
          this.bandwidth.sent(upstream.bytes - bytes, performance.now())
          if (upstream.connections > connections) metrics.connections.inc({ upstream: upstream.name }, upstream.connections - connections)
        }
      },
      {
        signal: this.signal,
        firstPauseMs: FIRST_PAUSE_MS,
        maxPauseMs: config.max_pause_secs * 1000,
        transient: () => !this.signal.aborted,
        pause: (ms) => pause(ms, this.signal),
      },
    )
    return outcome ?? (divided as CallError)
  }

  /** The upstream to try: another one when this one has failed for long, the first again after a while. */
  private chosen(): Upstream {
    const { upstreams, config, log } = this.options
    const now = performance.now()
    const was = this.current
    if (this.failingSince !== undefined && now - this.failingSince >= config.failover_after_secs * 1000 && upstreams.length > 1) {
      this.current = (this.current + 1) % upstreams.length
      this.failingSince = undefined
    } else if (this.current !== 0 && now - this.switchedAt >= config.failback_secs * 1000) this.current = 0
    if (this.current !== was) {
      this.switchedAt = now
      log.warn({ from: upstreams[was].name, to: this.upstream.name }, 'points go to another upstream')
    }
    return this.upstream
  }

  private answered(upstream: Upstream, { written, bytes }: Outcome): void {
    const { metrics, log } = this.options
    metrics.requests.inc({ upstream: upstream.name, outcome: 'taken' })
    metrics.sentPoints.inc({ upstream: upstream.name }, written)
    metrics.sentBytes.inc({ upstream: upstream.name }, bytes)
    this.failingSince = undefined
    if (this.complained !== undefined) log.info({ upstream: upstream.name }, 'the upstream takes points again')
    this.complained = undefined
    upstream.up = true
    this.link.answered(written)
    upstream.lastError = undefined
  }

  private failed(upstream: Upstream, error: CallError, verdict: Verdict): void {
    const { metrics, log } = this.options
    this.failingSince ??= performance.now()
    const reason = error.code ?? (error.status === undefined ? 'unreachable' : `status_${error.status}`)
    metrics.waits.inc({ upstream: upstream.name, reason })
    upstream.up = false
    if (!this.signal.aborted) this.link.failed(`${upstream.name}: ${error.message}`, verdict === 'mend')
    upstream.lastError = error.message
    const complaint = `${upstream.name} ${reason}`
    if (this.complained === complaint) return
    this.complained = complaint
    const text =
      verdict === 'mend'
        ? 'the upstream refuses this node: its configuration has to be mended, here or there; points wait'
        : 'the upstream takes no points; they wait'
    log.warn({ upstream: upstream.name, error: error.message }, text)
  }

  private async withinBandwidth(): Promise<void> {
    const early = this.bandwidth.waitMs(performance.now())
    if (early > 0) await this.pause(early)
  }

  private async pause(ms: number): Promise<void> {
    await this.options.pause(ms, this.signal)
  }

  private async note(): Promise<void> {
    this.noted = performance.now()
    await replaceFile(this.options.path, `${JSON.stringify({ version: 1, ...this.position })}\n`)
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

const UNKNOWN = { code: 'PARTIAL_WRITE', message: 'the upstream refused the point and did not say why' }

/** Where a sender was; undefined where nothing was noted, or nothing that can be read: it then begins with the oldest. */
export async function savedPosition(path: string): Promise<QueuePosition | undefined> {
  try {
    const { version, file, offset, sequence, points } = JSON.parse(await readFile(path, 'utf8')) as QueuePosition & { version: number }
    const whole = [file, offset, sequence, points].every((value) => Number.isSafeInteger(value) && value >= 0)
    return version === 1 && whole ? { file, offset, sequence, points } : undefined
  } catch {
    return undefined
  }
}
