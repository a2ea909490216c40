/**
 * A storage engine whose data is elsewhere: the memory engine behind a message channel. Nothing of it is shared with this side, its answers are late and out
 * of order, and series are resolved over there when a batch is written. That plugins and the conformance suite run on it shows that the storage interface
 * can be served from elsewhere.
 */
import type {
  AdmissionBounds,
  Capability,
  ChangeCursor,
  ChangeRequest,
  DeleteRequest,
  DeleteResult,
  DropOptions,
  FieldInfo,
  JobOptions,
  MeasurementInfo,
  MeasurementsPage,
  MeasurementsPageRequest,
  NamespaceBounds,
  NamespaceGuard,
  NamespaceUsage,
  RetentionHold,
  RunningJob,
  ScanPlan,
  ScanRequest,
  SeriesChunk,
  StateStore,
  StorageContext,
  StorageEngine,
  StorageStatus,
  WriteOptions,
  WriteResult,
} from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import { placeOf } from '../../storage/common/change-places.ts'
import { limitsOf } from '../../storage/common/limits.ts'
import { createEngine as createMemoryEngine } from '../../storage/memory/index.ts'
import { messageOf } from './batch-message.ts'
import { type Client, connect } from './channel.ts'
import { RemoteCursor } from './cursor.ts'
import { LateResolver } from './resolver.ts'
import { type Envelope, EXCEEDED, Server, type WriteAnswer } from './server.ts'
import { RemoteState } from './state.ts'

const CLOSED = 'the database is closed'

export class RemoteEngine implements StorageEngine {
  readonly capabilities: ReadonlySet<Capability>
  readonly resolver: LateResolver
  private readonly there: StorageEngine
  private readonly client: Client
  private readonly holds = new Set<RetentionHold>()
  private readonly batches = new Set<WriteBatch>()
  /** Writes under way, by namespace. */
  private readonly underWay = new Map<string, Set<Promise<unknown>>>()
  private readonly states = new Map<string, RemoteState>()
  private readonly cursors = new Set<RemoteCursor>()
  private readonly namespacesSeen = new Set<string>()
  private keeper: NamespaceGuard | undefined
  /** The other side's. */
  private epoch = 0
  private nextStream = 0
  private accepting = false

  /** @param seed decides which answers are late. */
  constructor(context: StorageContext, seed: number) {
    this.there = createMemoryEngine(context)
    this.resolver = new LateResolver(limitsOf(context.config))
    this.capabilities = this.there.capabilities
    const { client, serve } = connect(seeded(seed))
    this.client = client
    const server = new Server(this.there)
    serve((kind, body) => server.handle(kind, body as Envelope))
  }

  async open(): Promise<void> {
    await this.there.open()
    this.accepting = true
  }

  async close(): Promise<void> {
    if (!this.accepting) return
    this.accepting = false
    for (const cursor of this.cursors) cursor.close()
    await this.there.close()
    this.client.close()
  }

  batch(namespace: string): WriteBatch {
    const batch = new WriteBatch(this.resolver)
    batch.namespace = namespace
    this.batches.add(batch)
    return batch
  }

  recycle(batch: WriteBatch): void {
    if (!this.batches.delete(batch)) throw new Error('cannot take back a batch: it is not open; a batch is written or recycled once')
  }

  async write(batch: WriteBatch, options: WriteOptions = {}): Promise<WriteResult> {
    const { namespace } = batch
    this.recycle(batch)
    this.requireGuard(namespace)
    const { result, schema } = await this.change(namespace, this.ask<WriteAnswer>('write', { batch: messageOf(batch, this.resolver), options }))
    this.learn(namespace, schema)
    const rejections = result.rejections.map(({ code, message, position }) => {
      const words = this.ownWords(namespace, { message })
      return { code: words?.code ?? code, message: words?.message ?? message, position }
    })
    return { ...result, rejections }
  }

  async declareField(namespace: string, measurement: string, field: FieldInfo): Promise<MeasurementInfo> {
    this.requireGuard(namespace)
    try {
      const info = await this.change(namespace, this.ask<MeasurementInfo>('declareField', { namespace, measurement, field }))
      this.learn(namespace, [info])
      return info
    } catch (error) {
      const words = error instanceof SvcError ? this.ownWords(namespace, error) : undefined
      throw words ?? error
    }
  }

  async measurements(namespace: string, only?: string): Promise<MeasurementInfo[]> {
    await this.settled(namespace)
    return this.ask('measurements', { namespace, only })
  }

  async measurementsPage(request: MeasurementsPageRequest): Promise<MeasurementsPage> {
    await this.settled(request.namespace)
    return this.ask('measurementsPage', request)
  }

  async namespaces(): Promise<string[]> {
    for (const namespace of this.underWay.keys()) await this.settled(namespace)
    return this.ask('namespaces', undefined)
  }

  async usage(namespace: string): Promise<NamespaceUsage> {
    await this.settled(namespace)
    return this.ask('usage', namespace)
  }

  guard(guard: NamespaceGuard): void {
    this.keeper = guard
  }

  async delete(request: DeleteRequest): Promise<DeleteResult> {
    return this.ask('delete', request)
  }

  async drop(namespace: string, measurement: string, options: DropOptions = {}): Promise<void> {
    await this.ask('drop', { namespace, measurement, options })
    this.resolver.drop(namespace, measurement)
  }

  async restore(namespace: string, measurement: string): Promise<void> {
    this.requireGuard(namespace)
    await this.change(namespace, this.ask<void>('restore', { namespace, measurement }))
    this.learn(namespace, await this.measurements(namespace))
  }

  async admission(namespace: string, measurement: string): Promise<AdmissionBounds> {
    await this.settled(namespace)
    return this.ask('admission', { namespace, measurement })
  }

  holdRetention(hold: RetentionHold): () => void {
    const own: RetentionHold = (namespace, measurement) => hold(namespace, measurement)
    this.holds.add(own)
    return () => void this.holds.delete(own)
  }

  async *scan(request: ScanRequest, { signal, ...options }: JobOptions = {}): AsyncGenerator<SeriesChunk> {
    signal?.throwIfAborted()
    const id = this.nextStream++
    await this.ask('scan', { id, request, options })
    yield* this.stream<SeriesChunk>(id, signal)
  }

  explain(request: ScanRequest): Promise<ScanPlan> {
    return this.ask('explain', request)
  }

  run<R>(module: URL, args: unknown, { signal, ...options }: JobOptions = {}): RunningJob<R> {
    if (!this.accepting) throw new SvcError('DATABASE_CLOSED', CLOSED)
    const id = this.nextStream++
    const begun = this.ask('run', { id, module: module.href, args, options })
    const result = begun.then(() => this.ask<R>('result', id))
    result.catch(() => {})
    // Not before the other side knows of it: requests do not keep their order.
    const cancel = (): void => void begun.then(() => this.ask('end', id)).catch(() => {})
    if (signal?.aborted) cancel()
    signal?.addEventListener('abort', cancel, { once: true })
    const { stream } = this
    const output = stream.call(this, id, signal, begun) as AsyncGenerator<Uint8Array>
    return { output, result, cancel }
  }

  changes(request: ChangeRequest = {}): ChangeCursor {
    if (!this.accepting) throw new SvcError('DATABASE_CLOSED', CLOSED)
    if (request.after !== undefined) placeOf(request.after)
    const cursor = new RemoteCursor(this.nextStream++, request, (kind, body) => this.ask(kind, body))
    this.cursors.add(cursor)
    return cursor
  }

  endJobs(namespace: string): void {
    this.ask('end jobs', namespace).catch(() => {})
  }

  forgetChanges(namespace: string): void {
    this.ask('forget changes', namespace).catch(() => {})
  }

  state(owner: string): StateStore {
    const state = this.states.get(owner) ?? new RemoteState(owner, (kind, body) => this.ask(kind, body))
    this.states.set(owner, state)
    return state
  }

  status(): StorageStatus {
    return this.accepting ? { accepting: true } : { accepting: false, reason: CLOSED }
  }

  flush(): Promise<void> {
    return this.ask('flush', undefined)
  }

  private learn(namespace: string, schema: readonly MeasurementInfo[]): void {
    for (const { name, fields } of schema) this.resolver.learn(namespace, name, fields)
  }

  /** Sends a request with what functions of this side say now. */
  private async ask<T>(kind: string, body: unknown): Promise<T> {
    if (!this.accepting) throw new SvcError('DATABASE_CLOSED', CLOSED)
    const envelope: Envelope = { bounds: this.bounds(), holds: this.held(), body }
    const { epoch, answer } = await this.client.ask<{ epoch: number; answer: T }>(kind, envelope)
    if (epoch > this.epoch) {
      this.epoch = epoch
      this.resolver.forget()
    }
    return answer
  }

  private async *stream<T>(id: number, signal: AbortSignal | undefined, begun?: Promise<unknown>): AsyncGenerator<T> {
    await begun
    try {
      while (true) {
        const { done, value } = await this.ask<IteratorResult<T>>('next', id)
        signal?.throwIfAborted()
        if (done) return
        yield value
      }
    } finally {
      // A job's result is asked for after its output.
      if (begun === undefined) await this.ask('end', id).catch(() => {})
    }
  }

  /** A listing that is asked for later sees it. */
  private async change<T>(namespace: string, done: Promise<T>): Promise<T> {
    const all = this.underWay.get(namespace) ?? new Set()
    this.underWay.set(namespace, all.add(done))
    try {
      return await done
    } finally {
      all.delete(done)
      if (all.size === 0) this.underWay.delete(namespace)
    }
  }

  private async settled(namespace: string): Promise<void> {
    await Promise.allSettled(this.underWay.get(namespace) ?? [])
  }

  private requireGuard(namespace: string): void {
    if (!this.accepting) throw new SvcError('DATABASE_CLOSED', CLOSED)
    const refusal = this.keeper?.refusal(namespace)
    if (refusal !== undefined) throw refusal
    this.namespacesSeen.add(namespace)
  }

  /** What the guard says of a refusal that the other side has no words for. */
  private ownWords(namespace: string, { message }: { message: string }): SvcError | undefined {
    const kind = EXCEEDED.exec(message)?.[1] as 'series' | 'measurements' | undefined
    return kind === undefined ? undefined : this.keeper?.exceeded(namespace, kind)
  }

  private bounds(): Record<string, NamespaceBounds> {
    const all = [...this.namespacesSeen].map((namespace) => [namespace, this.keeper?.bounds(namespace)] as const)
    return Object.fromEntries(all.filter((one): one is readonly [string, NamespaceBounds] => one[1] !== undefined))
  }

  private held(): Envelope['holds'] {
    if (this.holds.size === 0) return []
    return [...this.resolver.known()].flatMap(({ namespace, name }) => {
      const times = [...this.holds].flatMap((hold) => hold(namespace, name) ?? [])
      return times.length === 0 ? [] : [{ namespace, measurement: name, time: times.reduce((a, b) => (a < b ? a : b)) }]
    })
  }
}
