/** The other side: an engine that gets copies of requests and gives copies of answers. */
import type { ChangeCursor, MeasurementInfo, NamespaceBounds, Rejection, RunningJob, StateRange, StorageEngine, WriteOptions, WriteResult } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type BatchMessage, fillFrom } from './batch-message.ts'
import { messageOfChange } from './cursor.ts'

const KEPT_REJECTIONS = 16
/** A refusal whose text the client's guard has. */
export const EXCEEDED = /^exceeded (series|measurements)$/

/** What comes with every request: what functions on the other side would say. */
export interface Envelope {
  bounds: Record<string, NamespaceBounds>
  holds: { namespace: string; measurement: string; time: bigint }[]
  body: unknown
}

export interface WriteAnswer {
  result: WriteResult
  /** Of the measurements that the batch names. */
  schema: MeasurementInfo[]
}

/** The commit of a transaction: what its body has read, which must still be so, and what it writes. */
export interface StateCommit {
  owner: string
  reads: { key: string; value: unknown }[]
  lists: { range: StateRange; found: unknown }[]
  writes: { key: string; value: unknown }[]
}

interface Stream {
  items: AsyncIterator<unknown>
  abort: AbortController
  job: RunningJob<unknown> | undefined
}

export class Server {
  private readonly engine: StorageEngine
  private readonly streams = new Map<number, Stream>()
  private readonly cursors = new Map<number, ChangeCursor>()
  private bounds: Envelope['bounds'] = {}
  private holds: Envelope['holds'] = []

  constructor(engine: StorageEngine) {
    this.engine = engine
    engine.guard({
      refusal: () => undefined,
      bounds: (namespace) => this.bounds[namespace],
      exceeded: (_, kind) => new SvcError('RATE_LIMITED', `exceeded ${kind}`),
    })
    engine.holdRetention((namespace, measurement) => this.holds.find((hold) => hold.namespace === namespace && hold.measurement === measurement)?.time)
  }

  /** @returns the answer, with the engine's epoch: what has become of the names. */
  readonly handle = async (kind: string, { bounds, holds, body }: Envelope): Promise<{ epoch: number; answer: unknown }> => {
    this.bounds = bounds
    this.holds = holds
    const answer = await this.answer(kind, body as never)
    return { epoch: this.engine.resolver.epoch, answer }
  }

  // biome-ignore lint/suspicious/noExplicitAny: what a request holds is between its two sides.
  private answer(kind: string, body: any): unknown {
    const { engine } = this
    switch (kind) {
      case 'write':
        return this.write(body.batch, body.options)
      case 'declareField':
        return engine.declareField(body.namespace, body.measurement, body.field)
      case 'measurements':
        return engine.measurements(body.namespace, body.only)
      case 'measurementsPage':
        return engine.measurementsPage(body)
      case 'namespaces':
        return engine.namespaces()
      case 'usage':
        return engine.usage(body)
      case 'admission':
        return engine.admission(body.namespace, body.measurement)
      case 'delete':
        return engine.delete(body)
      case 'drop':
        return engine.drop(body.namespace, body.measurement, body.options)
      case 'restore':
        return engine.restore(body.namespace, body.measurement)
      case 'explain':
        return engine.explain(body)
      case 'flush':
        return engine.flush()
      case 'scan': {
        const abort = new AbortController()
        const items = engine.scan(body.request, { ...body.options, signal: abort.signal })[Symbol.asyncIterator]()
        this.streams.set(body.id, { items, abort, job: undefined })
        return undefined
      }
      case 'run': {
        const abort = new AbortController()
        const job = engine.run(new URL(body.module), body.args, { ...body.options, signal: abort.signal })
        job.result.catch(() => {})
        this.streams.set(body.id, { items: job.output[Symbol.asyncIterator](), abort, job })
        return undefined
      }
      case 'next':
        return this.streams.get(body)?.items.next()
      case 'result':
        return this.streams.get(body)?.job?.result
      case 'end':
        this.streams.get(body)?.abort.abort(new Error('the caller has cancelled it'))
        // What has become of a job may be asked for later.
        if (this.streams.get(body)?.job === undefined) this.streams.delete(body)
        return undefined
      case 'changes':
        this.cursors.set(body.id, engine.changes(body.request))
        return undefined
      case 'forget changes':
        return engine.forgetChanges?.(body)
      case 'end jobs':
        return engine.endJobs?.(body)
      case 'changes next':
        return this.cursors
          .get(body)
          ?.next()
          .then(({ value }) => value && messageOfChange(value))
      case 'changes position':
        return this.cursors.get(body)?.position()
      case 'changes end':
        this.cursors.get(body)?.close()
        this.cursors.delete(body)
        return undefined
      case 'state get':
        return engine.state(body.owner).get(body.key)
      case 'state list':
        return engine.state(body.owner).list(body.range)
      case 'state commit':
        return this.commit(body)
      default:
        throw new Error(`cannot answer a request of kind "${kind}"`)
    }
  }

  private async write(message: BatchMessage, options: WriteOptions): Promise<WriteAnswer> {
    const { batch, refused } = fillFrom(message, this.engine)
    const { written, rejected, rejections } = await this.engine.write(batch, options)
    const all: Rejection[] = [...refused, ...rejections].sort((a, b) => a.position - b.position)
    const named = new Set(message.names.map(({ measurement }) => measurement))
    const schema = (await this.engine.measurements(message.namespace)).filter(({ name }) => named.has(name))
    return { result: { written, rejected: rejected + refused.length, rejections: all.slice(0, KEPT_REJECTIONS) }, schema }
  }

  /** @returns whether it was committed. */
  private commit({ owner, reads, lists, writes }: StateCommit): Promise<boolean> {
    const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)
    return this.engine.state(owner).transaction(async (tx) => {
      for (const { key, value } of reads) if (!same(await tx.get(key), value)) return false
      for (const { range, found } of lists) if (!same(await tx.list(range), found)) return false
      for (const { key, value } of writes) {
        if (value === undefined) tx.delete(key)
        else tx.put(key, value)
      }
      return true
    })
  }
}
