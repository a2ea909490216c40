/** What all endpoints share: two prefixes, parameters, answers that come out of jobs, errors in the API's shape. */
import type { FastifyReply } from 'fastify'
import { type Action, type HttpRequest, type JobOptions, type RunningJob, type Svc, sendOutput, toSvcError } from 'svcdb'
import { type ErrorKind, logged } from 'svcdb/lib/errors'
import { type PromqlMetrics, promqlMetrics } from '../metrics.ts'
import { answerOf } from './api-error.ts'
import { ANSWERS, describeParameters, type ParameterName } from './parameters.ts'
import { Params } from './params.ts'

const PREFIXES = ['/api/v1', '/api/v1/prom'] as const
export const JSON_TYPE = 'application/json; charset=utf-8'

export type Endpoint = (params: Params, request: HttpRequest, reply: FastifyReply) => unknown

/** Of one endpoint. */
type Seconds = ReturnType<PromqlMetrics['seconds']['labels']>

interface EndpointOptions {
  summary: string
  methods: readonly ('GET' | 'POST' | 'PUT')[]
  /** Default: read. */
  action?: Action
  parameters?: readonly ParameterName[]
  /** Default: those of the API. */
  prefixes?: readonly string[]
  /** The body's bytes as they were sent, instead of a form. */
  encodedBody?: true
  /** For the description, by status. Default: data in the API's envelope. */
  answers?: object
}

interface SendOptions {
  type: string
  /** Content-Encoding of what the job emits. */
  encoding?: string
  /** What the request allows itself. */
  timeoutMs?: number
  /** Of storage: equal jobs may be answered by one. */
  shared?: true
  cacheable?: boolean
  partialKey?: string
}

export class QueryApi {
  readonly svc: Svc
  private readonly metrics: PromqlMetrics

  constructor(svc: Svc) {
    this.svc = svc
    this.metrics = promqlMetrics(svc.metrics)
    svc.http.errorsBelow('/api/v1/prom/', (error, request, reply) => this.fail(error, request.raw.socket.destroyed, reply))
  }

  /** Serves `path` under all prefixes. What `endpoint` returns is the answer's `data`, unless it has sent a reply itself. */
  serve(
    path: string,
    { summary, methods, action = 'read', parameters = [], prefixes = PREFIXES, encodedBody, answers = ANSWERS }: EndpointOptions,
    endpoint: Endpoint,
  ): void {
    const seconds = this.metrics.seconds.labels(path.split('/', 2)[1])
    const config = { action, ...(encodedBody === undefined ? {} : { rawBody: true as const, encodedBody }) }
    for (const prefix of prefixes) {
      for (const method of methods) {
        this.svc.http.route({
          method,
          url: `${prefix}${path}`,
          config,
          schema: { summary, querystring: describeParameters(parameters), response: answers } as never,
          validatorCompiler: unchecked,
          errorHandler: (error, request, reply) => this.fail(error, request.raw.socket.destroyed, reply),
          handler: (request, reply) => this.answer(seconds, endpoint, request, reply),
        })
      }
    }
  }

  /** Runs a job beside the data and sends what it emits; the job ends with the client's connection. */
  async send<R>(
    request: HttpRequest,
    reply: FastifyReply,
    module: URL,
    args: unknown,
    { type, encoding, timeoutMs, ...rest }: SendOptions,
  ): Promise<RunningJob<R>> {
    const job = this.svc.storage.run<R>(module, args, { ...this.options(request, timeoutMs), ...rest })
    await sendOutput(request, reply, job, () => {
      reply.type(type)
      if (encoding !== undefined) reply.header('content-encoding', encoding)
    })
    return job
  }

  /** Runs a job for its result, which equal ones have in common. */
  run<R>(request: HttpRequest, module: URL, args: unknown): Promise<R> {
    return this.svc.storage.run<R>(module, args, { ...this.options(request), shared: true }).result
  }

  truncated(): void {
    this.metrics.truncated.inc()
  }

  private async answer(seconds: Seconds, endpoint: Endpoint, request: HttpRequest, reply: FastifyReply): Promise<unknown> {
    const started = performance.now()
    const data = await endpoint(new Params(request.query, request.body), request, reply)
    seconds.observe((performance.now() - started) / 1000)
    if (data !== undefined) reply.type(JSON_TYPE).send(JSON.stringify({ status: 'success', data }))
    return reply
  }

  private options(request: HttpRequest, timeoutMs = Number.POSITIVE_INFINITY): JobOptions {
    return { namespace: this.svc.context(request).dataNamespace, ...this.timeLimit(timeoutMs) }
  }

  private timeLimit(asked: number): JobOptions {
    const limit = this.svc.server.prom_query_timeout_secs * 1000 || Number.POSITIVE_INFINITY
    const timeoutMs = Math.max(1, Math.min(limit, asked))
    if (timeoutMs === Number.POSITIVE_INFINITY) return {}
    return { timeoutMs, timeoutSetting: asked < limit ? "the request's timeout" : 'server.prom_query_timeout_secs' }
  }

  /** @param gone nobody waits for the answer any more. */
  private fail(error: unknown, gone: boolean, reply: FastifyReply): void {
    const known = toSvcError(error)
    const { status, type, text, retryAfter } = answerOf(known)
    this.metrics.failures.inc({ type: gone ? 'canceled' : type })
    if ((known.kind as ErrorKind).redact) this.svc.log.error({ err: logged(known), code: known.code }, 'request failed')
    if (known.headers !== undefined) reply.headers(known.headers)
    if (retryAfter !== undefined && !reply.hasHeader('retry-after')) reply.header('retry-after', retryAfter)
    if (status === 401 && !reply.hasHeader('www-authenticate')) reply.header('www-authenticate', 'Bearer')
    reply
      .code(status)
      .type(JSON_TYPE)
      .send(JSON.stringify({ status: 'error', errorType: type, error: text, code: known.code }))
  }
}

const unchecked = () => (value: unknown) => ({ value })
