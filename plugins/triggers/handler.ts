/** /api/v1/triggers, /api/v1/signals and /api/v1/annotations. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { AUDIT_LOG, type AuditAction, type AuditLog, audited, type CallContext, type HttpRequest, requireStanding, type Svc } from 'svcdb'
import { classify, publicText, SvcError } from 'svcdb/lib/errors'
import { nextTurn } from 'svcdb/lib/event-loop'
import { jsonListing } from 'svcdb/lib/json'
import { moduleUrl } from 'svcdb/lib/modules'
import { AnnotationStream, errorText, placeOf } from './annotation-stream.ts'
import { type Annotation, ofRow, ofSignal } from './annotations.ts'
import type { AnnotationsArgs, MeasurementRows } from './annotations-job.ts'
import type { TriggersConfig } from './config.ts'
import type { Engine } from './engine.ts'
import { PageSize } from './page-size.ts'
import { signalData, signalTags } from './signal.ts'
import { type CreateTrigger, createText, parseStatement } from './statement/parse.ts'
import type { Subscribers } from './subscribers.ts'
import { type ShownTrigger, shown } from './trigger.ts'

/** Signals that are read at once, at most. */
const PAGE = 100
const NANOS = 1_000_000n
export const STREAM_PATH = '/api/v1/annotations/stream'

export class TriggersHandler {
  private readonly svc: Svc
  private readonly config: TriggersConfig
  private readonly engine: Engine
  private readonly subscribers: Subscribers

  constructor(svc: Svc, config: TriggersConfig, engine: Engine, subscribers: Subscribers) {
    this.svc = svc
    this.config = config
    this.engine = engine
    this.subscribers = subscribers
  }

  async statement(request: HttpRequest, reply: FastifyReply): Promise<{ message: string } | FastifyReply> {
    const context = this.svc.context(request)
    const { max_statement_bytes, max_comparisons, max_condition_depth, max_channels } = this.config
    const limits = { maxBytes: max_statement_bytes, maxComparisons: max_comparisons, maxDepth: max_condition_depth, maxChannels: max_channels }
    const statement = parseStatement((request.body as { query: string }).query, limits)
    const { dataNamespace } = context
    switch (statement.kind) {
      case 'show':
        await this.svc.auth.authorize(context, 'read', '/api/v1/triggers')
        return this.list(request, reply)
      case 'drop':
        await this.svc.auth.authorize(context, 'delete', '/api/v1/triggers/:name')
        return this.drop(context, statement.name)
      case 'alter':
        await this.svc.auth.authorize(context, 'read', '/api/v1/signals')
        await this.audited(context, 'trigger_alter', statement.name, { enabled: String(statement.enabled) }, () =>
          this.engine.alter(dataNamespace, statement.name, statement.enabled),
        )
        return { message: `trigger "${statement.name}" is ${statement.enabled ? 'enabled' : 'disabled'}` }
      case 'create': {
        // What it finds is told to whoever it names: who may not read must not have it read.
        await this.svc.auth.authorize(context, 'read', '/api/v1/signals')
        await this.audited(context, 'trigger_create', statement.name, { statement: withoutPaths(statement) }, () =>
          this.engine.create(dataNamespace, statement),
        )
        return { message: `trigger "${statement.name}" is created` }
      }
    }
  }

  list(request: HttpRequest, reply: FastifyReply): FastifyReply {
    const all = this.engine.list(this.svc.context(request).dataNamespace)
    return reply.type('application/json; charset=utf-8').send(jsonListing('{"triggers":[', all, shown, ']}'))
  }

  get(request: HttpRequest): ShownTrigger {
    const { name } = request.params as { name: string }
    const trigger = this.engine.get(this.svc.context(request).dataNamespace, name)
    if (trigger === undefined)
      throw new SvcError(
        'NOT_FOUND',
        `cannot find trigger ${JSON.stringify(name.slice(0, 256))}: there is none of this name; GET /api/v1/triggers lists those there are`,
      )
    return shown(trigger)
  }

  delete(request: HttpRequest): Promise<{ message: string }> {
    return this.drop(this.svc.context(request), (request.params as { name: string }).name)
  }

  /** Sends the signals as they are read. */
  async signals(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const context = this.svc.context(request)
    const { dataNamespace } = context
    const { limit = Number.POSITIVE_INFINITY, offset = 0, before = Number.POSITIVE_INFINITY } = request.query as Record<string, number | undefined>
    const { next, first } = await this.engine.store.range(dataNamespace)
    const oldest = Math.max(first, next - this.config.signal_store_capacity)
    const end = Math.max(oldest, Math.min(next, before) - offset)
    const from = Math.max(oldest, end - limit)
    reply.type('application/json; charset=utf-8')
    return reply.send(Readable.from(this.signalTexts(context, from, end), { objectMode: false }))
  }

  private async *signalTexts(context: CallContext, from: number, end: number): AsyncGenerator<string> {
    let before = '['
    const size = new PageSize(PAGE)
    for (let at = from; at < end; ) {
      const to = Math.min(end, at + size.next)
      const page = await this.engine.store.signals(context.dataNamespace, at, to, PAGE)
      at = to
      size.read(page)
      // The client takes its time: the namespace may be another's by now.
      requireStanding(context, this.svc.clock.now())
      if (page.length === 0) continue
      yield before + page.map((signal) => JSON.stringify(signalData(signal))).join(',')
      before = ','
      await nextTurn()
    }
    yield before === '[' ? '[]' : ']'
  }

  /** Of signals and of rows, oldest first. */
  async annotations(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { dataNamespace: namespace } = this.svc.context(request)
    const { max_annotations, annotation_rows } = this.config
    const { from, to, limit = max_annotations } = request.query as { from?: number; to?: number; limit?: number }
    const most = Math.min(limit, max_annotations)
    const within = ({ time }: Annotation): boolean => time >= (from ?? Number.NEGATIVE_INFINITY) && time <= (to ?? Number.POSITIVE_INFINITY)
    const args: AnnotationsArgs = {
      namespace,
      rows: annotation_rows,
      now: this.svc.clock.nowNanos(),
      sql: this.svc.storage.capabilities.has('sql'),
      ...(from === undefined ? {} : { start: inRange(BigInt(from) * NANOS) }),
      ...(to === undefined ? {} : { end: inRange((BigInt(to) + 1n) * NANOS) }),
    }
    const job = this.svc.storage.run<MeasurementRows[]>(moduleUrl('./annotations-job.ts', import.meta.url), args, {
      namespace,
      timeoutMs: this.svc.server.sql_query_timeout_secs * 1000,
      timeoutSetting: 'server.sql_query_timeout_secs',
    })
    const { socket } = request.raw
    socket.once('close', job.cancel)
    const [found, signals] = await Promise.all([job.result, this.newestSignals(namespace, most, within)]).finally(() => {
      socket.off('close', job.cancel)
      job.cancel()
    })
    const rows = found.flatMap(({ measurement, times }) => times.map((time) => ofRow(measurement, time)))
    const all = [...signals, ...rows.filter(within)].sort((a, b) => a.time - b.time).slice(-most)
    return reply.type('application/json; charset=utf-8').send(jsonListing('[', all, (annotation) => annotation, ']'))
  }

  private async newestSignals(namespace: string, most: number, within: (annotation: Annotation) => boolean): Promise<Annotation[]> {
    const { next, first } = await this.engine.store.range(namespace)
    const found: Annotation[] = []
    const size = new PageSize(PAGE)
    for (let end = next; end > first && found.length < most; ) {
      const from = Math.max(first, end - size.next)
      const page = await this.engine.store.signals(namespace, from, end, PAGE)
      end = from
      size.read(page)
      for (const signal of page.toReversed()) {
        // Of one that was kept under another limit, too: all of them are in memory.
        const annotation = ofSignal({ ...signal, tags: signalTags(signal.tags, this.config.max_signal_tag_bytes).tags })
        if (within(annotation) && found.length < most) found.push(annotation)
      }
      await nextTurn()
    }
    return found
  }

  /** Server-sent events, until the reader goes, the credential ends, or the node stops. */
  async stream(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const context = this.svc.context(request)
    const given = request.headers['last-event-id'] ?? (request.query as { last_event_id?: string }).last_event_id
    const from = typeof given === 'string' && given !== '' ? placeOf(given) : undefined
    if (typeof given === 'string' && given !== '' && from === undefined)
      throw new SvcError(
        'BAD_REQUEST',
        `cannot go on after ${JSON.stringify(given.slice(0, 100))}: it is no id of this stream; leave Last-Event-ID out to begin with what comes`,
      )
    // A stream that nobody reads would not end.
    if (request.method === 'HEAD') return reply.type('text/event-stream').send('')
    const gone = new AbortController()
    const stream = new AnnotationStream({
      namespace: context.dataNamespace,
      store: this.engine.store,
      storage: this.svc.storage,
      from,
      signal: AbortSignal.any([gone.signal, this.svc.stopping]),
      ended: this.endOf(context),
    })
    const added = this.subscribers.add(context.dataNamespace, stream.wake)
    reply.header('content-type', 'text/event-stream; charset=utf-8').header('cache-control', 'no-cache, no-transform').header('x-accel-buffering', 'no')
    if (typeof added === 'string') return reply.send(errorText(added))
    const end = (): void => {
      added()
      gone.abort()
      stream.wake()
    }
    request.raw.socket.once('close', end)
    const { stopping } = this.svc
    stopping.addEventListener('abort', stream.wake, { once: true })
    const { clock } = this.svc
    const patienceMs = this.config.slow_reader_secs * 1000
    const texts = async function* (): AsyncGenerator<string> {
      try {
        for await (const text of stream.texts()) {
          // The next is asked for when there is room, which a reader makes who takes something. Nothing could be told to one who does not.
          const cancel = clock.after(patienceMs, () => request.raw.socket.destroy())
          try {
            yield text
          } finally {
            cancel()
          }
        }
      } catch (error) {
        yield errorText(publicText(classify(error)))
      }
    }
    const body = Readable.from(texts(), { objectMode: false, highWaterMark: 16_384 })
    // Not in the generator: of a reader who has gone before its first text is asked for nothing of it is run.
    body.once('close', () => {
      request.raw.socket.off('close', end)
      stopping.removeEventListener('abort', stream.wake)
      end()
    })
    return reply.send(body)
  }

  /** Why a stream is to end. */
  private endOf(context: CallContext): () => Promise<string | undefined> {
    const stands = this.svc.auth.standing(context, 'read', STREAM_PATH)
    return async () => {
      if (this.svc.stopping.aborted) return 'the server is stopping; come back with Last-Event-ID'
      try {
        await stands()
        return undefined
      } catch (error) {
        return publicText(classify(error))
      }
    }
  }

  private async drop(context: CallContext, name: string): Promise<{ message: string }> {
    await this.audited(context, 'trigger_drop', name, {}, () => this.engine.drop(context.dataNamespace, name))
    return { message: `trigger "${name}" is dropped` }
  }

  private audited<T>(by: CallContext, action: AuditAction, name: string, metadata: Record<string, string>, act: () => Promise<T>): Promise<T> {
    const resource = by.dataNamespace === '' ? name : `${by.dataNamespace}/${name}`
    return audited(this.svc.find<AuditLog>(AUDIT_LOG), { action, resource, decision: 'allow', by, metadata }, act)
  }
}

const INT64 = 2n ** 63n

function inRange(nanos: bigint): bigint {
  return nanos < -INT64 ? -INT64 : nanos >= INT64 ? INT64 - 1n : nanos
}

/** Of a webhook only where it is: paths are often secrets. */
function withoutPaths(statement: CreateTrigger): string {
  const delivery = statement.delivery.map((channel) => (channel.kind === 'log' ? channel : { ...channel, url: `${placeOfUrl(channel.url)}...` }))
  return createText({ ...statement, delivery }).slice(0, 4096)
}

function placeOfUrl(url: string): string {
  if (!URL.canParse(url)) return ''
  const { protocol, host } = new URL(url)
  return `${protocol}//${host}/`
}
