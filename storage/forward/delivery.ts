/**
 * How rows get to the upstream: one request at a time, until each row is taken or set aside for what the upstream says of it. What concerns the upstream as a whole
 * is waited for here; what concerns the namespace of the rows alone ends their delivery, for others may go on.
 *
 * A request that was sent and not answered is sent again under the same key, which the upstream does not take twice; where it has forgotten the key, the same
 * points are written over themselves.
 */
import type { StorageContext } from 'svcdb'
import { errorKind } from 'svcdb/lib/errors'
import { type DeadLetters, patiently, SampledLog } from 'svcdb/lib/source'
import { Bandwidth } from './bandwidth.ts'
import type { ForwardConfig } from './config.ts'
import { measurementAt, setAside } from './dead-letter.ts'
import { asSvcError, CallError } from './grpc-client.ts'
import type { Link } from './link.ts'
import type { ForwardMetrics } from './metrics.ts'
import { chosenOf, countOf, partOf, type Rows } from './points.ts'
import { CLOSED_LOOK_MS, type SendTimes } from './send-times.ts'
import { LAST_TRIES, Suspects } from './suspects.ts'
import { concernsNamespace, type Outcome, type RefusedRow, type Upstream, type Verdict, verdictOf } from './upstream.ts'

export const FIRST_PAUSE_MS = 500
const LETTERS_PAUSE_MS = 5000
/** Of refused rows, that the upstream lists. */
const LISTED = 16
/** Rows that become dead letters at a time. */
const LETTERS = 256
/** In a row that are not answered in time: once may be an upstream that hangs, which takes the same again under the same key; twice is a link that is too narrow. */
const LATE_TRIES = 2
/** Of the time for an answer: as many rows again get one in half of it. */
const QUICK = 4
/** What is too old for the live window, and no more, has this code. */
const TOO_OLD = 'PARTIAL_WRITE'
const UNKNOWN = { code: 'PARTIAL_WRITE', message: 'the upstream refused the point and did not say why' }

export interface DeliveryOptions {
  upstreams: Upstream[]
  config: ForwardConfig
  times: SendTimes
  letters: DeadLetters
  metrics: ForwardMetrics
  log: StorageContext['log']
  tracing: StorageContext['tracing']
  now(): number
  /** Milliseconds that never go back. */
  monotonic(): number
  /** Ends early when the signal does, without an error. */
  pause(ms: number, signal: AbortSignal): Promise<void>
  /** The upstream has other types than are known here. */
  conflict(namespace: string, measurement: string): void
}

export interface Batch {
  rows: Rows
  /** Empty on a node that keeps none apart. */
  namespace: string
  backfill: boolean
  /** Says which rows these are: with the same key come the same. */
  key: string
}

/** The upstream takes nothing of the namespace for now. */
export interface Refusal {
  error: CallError
  /** Rows of the batch, from its begin, that are written or set aside. */
  settled: number
}

/** How far a batch is. */
interface Progress {
  readonly batch: Batch
  readonly count: number
  /** The next row. */
  at: number
  /** Rows of the next request. */
  size: number
  readonly probe: boolean
  readonly lastTries: number | undefined
  /** Rows that the upstream takes as a backfill only, ascending: they come last. */
  readonly tooOld: number[]
  readonly suspects: Suspects
}

export class Delivery {
  /** The upstream has taken something of another namespace since one was refused: it is not down. */
  flows = true
  private readonly options: DeliveryOptions
  private readonly link: Link
  private readonly signal: AbortSignal
  private readonly bandwidth: Bandwidth
  /** Rows of a request: as many as get an answer in time. */
  private most: number
  private readonly refusals: SampledLog
  /** In use. */
  private current = 0
  private failingSince: number | undefined
  private switchedAt = 0
  private complained: string | undefined

  /** @param signal ends all waits. */
  constructor(options: DeliveryOptions, link: Link, signal: AbortSignal) {
    this.options = options
    this.link = link
    this.signal = signal
    this.refusals = new SampledLog(options.log, () => options.monotonic())
    this.bandwidth = new Bandwidth(options.config.max_bandwidth)
    this.most = options.config.batch_points
  }

  get upstream(): Upstream {
    return this.options.upstreams[this.current]
  }

  /**
   * @param from the first row to send; those before are settled. @param probe begins with one row, for the others are likely refused, too.
   * @returns undefined when each row is written or set aside. @throws when the signal ends.
   */
  send(batch: Batch, from = 0, probe = false): Promise<Refusal | undefined> {
    return this.sendRows(batch, { from, probe })
  }

  /** Makes dead letters of the rows that were not settled. */
  async giveUp({ rows, namespace }: Batch, { error, settled }: Refusal): Promise<void> {
    const [code, message] = [error.code ?? 'BAD_REQUEST', error.message]
    for (let at = settled; at < countOf(rows); at += LETTERS) {
      const part = partOf(rows, at, Math.min(countOf(rows), at + LETTERS))
      await this.refuse(
        part,
        Array.from({ length: countOf(part) }, (_, position) => ({ position, code, message })),
        namespace,
      )
    }
  }

  /** @param lastTries of a suspect, after which it is set aside. */
  private async sendRows(
    batch: Batch,
    { from = 0, probe = false, lastTries }: { from?: number; probe?: boolean; lastTries?: number },
  ): Promise<Refusal | undefined> {
    const count = countOf(batch.rows)
    const tooOld: number[] = []
    const size = probe ? 1 : Math.min(count, this.most)
    const progress: Progress = { batch, count, at: from, size, probe, lastTries, tooOld, suspects: new Suspects() }
    while (progress.at < count) {
      const held = await this.sendNext(progress)
      // What was too old is not settled yet.
      if (held !== undefined) return { ...held, settled: Math.min(held.settled, tooOld[0] ?? count) }
    }
    return tooOld.length === 0 ? undefined : this.sendTooOld(batch, tooOld)
  }

  /** One request, and what follows from its outcome. */
  private async sendNext(progress: Progress): Promise<Refusal | undefined> {
    const { batch, at, lastTries, suspects } = progress
    const to = Math.min(progress.count, at + progress.size)
    const rows = partOf(batch.rows, at, to)
    const request = { ...batch, rows, key: `${batch.key}/${at}-${to}${batch.backfill ? 'b' : ''}` }
    const outcome = await this.request(request, lastTries ?? suspects.tries)
    if (outcome instanceof CallError) {
      if (outcome.late) {
        progress.size = this.most = Math.ceil((to - at) / 2)
        return undefined
      }
      // Suspects are not settled yet.
      if (isHeld(outcome, batch)) return { error: outcome, settled: at - suspects.size }
      if (lastTries === undefined && verdictOf(outcome) === 'broken') return this.suspect(progress, rows)
    }
    const held = await this.convict(suspects, batch)
    if (held !== undefined) return held
    suspects.taken()
    if (outcome instanceof CallError) await this.divideOrRefuse(progress, rows, { code: outcome.code ?? 'BAD_REQUEST', message: outcome.message })
    else if (outcome.rejected === 0) {
      progress.size = Math.min(this.most, progress.probe ? this.most : progress.size * 2)
      progress.at = to
    } else if (outcome.refused.length === 0) await this.divideOrRefuse(progress, rows, UNKNOWN)
    else await this.refuseListed(progress, rows, outcome)
    return undefined
  }

  /** The upstream fails over these rows: the one at fault is looked for, and set aside when it is found. */
  private async suspect(progress: Progress, rows: Rows): Promise<Refusal | undefined> {
    const { batch, at, suspects } = progress
    suspects.searching = true
    if (this.isDivided(progress, rows)) return undefined
    suspects.add({ rows, at })
    const then = suspects.conclude(at + 1 === progress.count)
    progress.at = at + 1
    if (then === 'guilty') return this.convict(suspects, batch)
    if (then === 'again') {
      progress.at -= suspects.take().length
      progress.size = Math.min(progress.count - progress.at, this.most)
    }
    return undefined
  }

  private async divideOrRefuse(progress: Progress, rows: Rows, refused: Omit<RefusedRow, 'position'>): Promise<void> {
    if (this.isDivided(progress, rows)) return
    await this.refuse(rows, [{ position: 0, ...refused }], progress.batch.namespace)
    progress.at++
  }

  /** Has half as many rows sent next, unless it is one row alone. */
  private isDivided(progress: Progress, rows: Rows): boolean {
    const count = countOf(rows)
    if (count > 1) progress.size = Math.ceil(count / 2)
    return count > 1
  }

  private async refuseListed(progress: Progress, rows: Rows, { refused, rejected }: Outcome): Promise<void> {
    const { batch, at, tooOld } = progress
    const old = batch.backfill ? [] : refused.filter(({ code }) => code === TOO_OLD)
    for (const { position } of old) tooOld.push(at + position)
    const others = batch.backfill ? refused : refused.filter(({ code }) => code !== TOO_OLD)
    await this.refuse(rows, others, batch.namespace)
    if (rejected === refused.length) progress.at += countOf(rows)
    else {
      // What is behind the last that is told is not known: it is sent once more.
      progress.at += refused[refused.length - 1].position + 1
      progress.size = Math.max(LISTED, progress.size >> 2)
    }
  }

  /** They were not too old when they were taken here. */
  private async sendTooOld(batch: Batch, tooOld: readonly number[]): Promise<Refusal | undefined> {
    const key = `${batch.key}/old-${tooOld[0]}-${tooOld[tooOld.length - 1]}-${tooOld.length}`
    const held = await this.sendRows({ ...batch, rows: chosenOf(batch.rows, tooOld), key, backfill: true }, {})
    return held === undefined ? undefined : { ...held, settled: tooOld[held.settled] }
  }

  private async convict(suspects: Suspects, batch: Batch): Promise<Refusal | undefined> {
    for (const [i, { rows, at }] of suspects.take().entries()) {
      const held = await this.sendRows({ ...batch, rows, key: `${batch.key}/again-${at}` }, { lastTries: i === 0 ? LAST_TRIES : 1 })
      if (held !== undefined) return { ...held, settled: at }
    }
    return undefined
  }

  private async refuse(rows: Rows, refused: RefusedRow[], namespace: string): Promise<void> {
    const { letters, metrics, now, conflict } = this.options
    if (refused.length === 0) return
    const left = new Set(refused)
    const attempt = () => setAside(letters, rows, left, now(), namespace)
    let isHeldUp = false
    const waiting = (error: Error): void => {
      metrics.waits.inc({ upstream: this.upstream.name, reason: 'dead_letters' })
      if (isHeldUp) return
      isHeldUp = true
      this.link.failed(`cannot write dead letters: ${error.message}`, true)
      const text = 'cannot write dead letters: points that the upstream has refused wait, and all behind them; see to the disk'
      this.options.log.error({ err: error, upstream: this.upstream.name, file: letters.path }, text)
    }
    // A full disk holds them up, and does not lose them.
    await patiently(attempt, { signal: this.signal, maxPauseMs: LETTERS_PAUSE_MS, transient: () => true, waiting })
    if (isHeldUp) this.link.reached()
    this.link.refused(refused.length)
    for (const { code } of refused) metrics.setAside.inc({ upstream: this.upstream.name, code: errorKind(code) === undefined ? 'unknown' : code })
    for (const { code, position } of refused) if (code === 'SCHEMA_ERROR') conflict(namespace, measurementAt(rows, position))
    const [{ code, message }] = refused
    this.refusals.warn(
      { upstream: this.upstream.name, points: refused.length, code, error: message, file: letters.path },
      'points were refused by the upstream and set aside',
    )
  }

  /**
   * What the upstream makes of rows; a CallError that says that they are to be divided, that their namespace is refused, that it has failed over them so often, or
   * that there is no answer in time for so many.
   * Waits for all else. @throws when the signal ends.
   */
  private request(batch: Batch, tries: number): Promise<Outcome | CallError> {
    const { config, metrics, pause } = this.options
    const count = countOf(batch.rows)
    let broken = 0
    let late = 0
    const attempt = async (): Promise<Outcome | CallError> => {
      await this.withinBandwidth()
      await this.withinTimes()
      this.signal.throwIfAborted()
      const upstream = this.chosen()
      try {
        return await this.write(upstream, batch)
      } catch (error) {
        if (!(error instanceof CallError)) throw error
        const verdict = verdictOf(error)
        metrics.requests.inc({ upstream: upstream.name, outcome: verdict })
        if (verdict === 'divide' || (verdict === 'broken' && ++broken >= tries)) return error
        if (isHeld(error, batch)) {
          this.held(upstream, error, verdict)
          return error
        }
        this.failed(upstream, error, verdict)
        if (error.late && ++late >= LATE_TRIES && count > 1) return error
        throw asSvcError(error, 'OVERLOADED')
      }
    }
    return patiently(attempt, {
      signal: this.signal,
      firstPauseMs: FIRST_PAUSE_MS,
      maxPauseMs: config.max_pause_secs * 1000,
      transient: () => !this.signal.aborted,
      pause: (ms) => pause(ms, this.signal),
    })
  }

  /** @throws CallError. */
  private async write(upstream: Upstream, batch: Batch): Promise<Outcome> {
    const { config, metrics, monotonic, tracing } = this.options
    const { connections, bytes } = upstream
    const count = countOf(batch.rows)
    const send = () => upstream.write(batch.rows, batch.namespace, { backfill: batch.backfill, dedupKey: batch.key }, this.signal)
    const attributes = { 'svc.upstream': upstream.name, 'svc.rows': count }
    const began = monotonic()
    try {
      const outcome = await (tracing === undefined ? send() : tracing.operation('forward', send, { kind: 'client', attributes }))
      this.answered(upstream, outcome)
      const isQuick = monotonic() - began < (config.timeout_secs * 1000) / QUICK
      if (count >= this.most && isQuick) this.most = Math.min(config.batch_points, count * 2)
      return outcome
    } finally {
      this.bandwidth.sent(upstream.bytes - bytes, monotonic())
      if (upstream.connections > connections) metrics.connections.inc({ upstream: upstream.name }, upstream.connections - connections)
    }
  }

  /** The upstream to try: another one when this one has failed for long, the first again after a while. */
  private chosen(): Upstream {
    const { upstreams, config, log, monotonic } = this.options
    const now = monotonic()
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
    this.flows = true
    upstream.up = true
    this.link.answered(written)
    upstream.lastError = undefined
  }

  private failed(upstream: Upstream, error: CallError, verdict: Verdict): void {
    const { metrics, log } = this.options
    const reason = this.down(upstream, error, verdict)
    metrics.waits.inc({ upstream: upstream.name, reason })
    const complaint = `${upstream.name} ${reason}`
    if (this.complained === complaint) return
    this.complained = complaint
    const text =
      verdict === 'mend'
        ? 'the upstream refuses this node: its configuration has to be mended, here or there; points wait'
        : 'the upstream takes no points; they wait'
    log.warn({ upstream: upstream.name, error: error.message }, text)
  }

  /** Where nothing else flows, a namespace that is refused is all that can be said of the upstream. */
  private held(upstream: Upstream, error: CallError, verdict: Verdict): void {
    const reason = this.flows ? reasonOf(error) : this.down(upstream, error, verdict)
    this.options.metrics.waits.inc({ upstream: upstream.name, reason })
  }

  private down(upstream: Upstream, error: CallError, verdict: Verdict): string {
    this.failingSince ??= this.options.monotonic()
    upstream.up = false
    upstream.lastError = error.message
    if (!this.signal.aborted) this.link.failed(`${upstream.name}: ${error.message}`, verdict === 'mend')
    return reasonOf(error)
  }

  private async withinBandwidth(): Promise<void> {
    const early = this.bandwidth.waitMs(this.options.monotonic())
    if (early > 0) await this.options.pause(early, this.signal)
  }

  /** Each try: an upstream that refuses for long would otherwise be sent the same all day. */
  private async withinTimes(): Promise<void> {
    const { times, now, pause } = this.options
    while (!times.isOpen(now()) && !this.signal.aborted) await pause(CLOSED_LOOK_MS, this.signal)
  }
}

/** A node that keeps no namespaces apart has nothing else that could go on. */
const isHeld = (error: CallError, { namespace }: Batch): boolean => namespace !== '' && concernsNamespace(error)

export const reasonOf = ({ code, status }: CallError): string => code ?? (status === undefined ? 'unreachable' : `status_${status}`)
