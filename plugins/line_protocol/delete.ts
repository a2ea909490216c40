/** POST /api/v2/delete: points of a time range and a predicate, of the measurements that the bucket stands for. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { HttpRequest, Matcher, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { rfc3339Nanos } from 'svcdb/lib/numbers'
import type { LineProtocolConfig } from './config.ts'
import { databaseName, databaseTags, parametersOf, shown } from './database-name.ts'
import { DEFAULT_LIMITS } from './limits.ts'
import { requireSelected } from './namespace-source.ts'
import { type Predicate, parsePredicate } from './predicate.ts'

interface DeleteBody {
  start: string
  stop: string
  predicate?: string | null
}

/** An `onRequest` hook: the body is JSON whatever its Content-Type is, as it is to InfluxDB 2. Its client for Rust names none, curl that of a form. */
export function alwaysJson(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  request.headers['content-type'] = 'application/json'
  done()
}

/** No point lies here, so a range between them holds all. */
const AFTER_ALL = 2n ** 63n - 1n
const BEFORE_ALL = -(2n ** 63n)

export class DeleteHandler {
  private readonly svc: Svc
  private readonly config: LineProtocolConfig

  constructor(svc: Svc, config: LineProtocolConfig) {
    this.svc = svc
    this.config = config
  }

  /** One measurement after the other; a request that fails on the way may be sent again. */
  async delete(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { svc } = this
    const body = request.body as DeleteBody
    const [start, stop] = [timeOf('start', body.start), timeOf('stop', body.stop)]
    if (start > stop) throw new SvcError('BAD_REQUEST', `cannot delete from "${body.start}" to "${body.stop}": start is after stop`)
    const predicate = parsePredicate(body.predicate ?? '')
    const { namespace, dataNamespace } = svc.context(request)
    const matchers = [...this.ofBucket(request.query, namespace, predicate), ...predicate.matchers]
    const end = stop === AFTER_ALL ? stop : stop + 1n
    let skipped = 0
    for (const measurement of await this.chosen(dataNamespace, predicate)) {
      try {
        skipped += (await svc.storage.delete({ namespace: dataNamespace, measurement, matchers, start, end })).segmentsSkipped
      } catch (error) {
        // Dropped meanwhile: nothing of it is left, and those behind it are to go, too.
        if (!(error instanceof SvcError) || error.code !== 'NOT_FOUND') throw error
      }
    }
    if (skipped > 0)
      throw new SvcError(
        'OVERLOADED',
        `cannot delete all of it: ${skipped} segments with points of the range are out of service; send the delete again when they are repaired`,
      )
    return reply.code(204).send()
  }

  /** Tags that points of the bucket have. @throws BAD_REQUEST for a bucket that cannot be followed. */
  private ofBucket(query: Record<string, unknown>, namespace: string, predicate: Predicate): Matcher[] {
    const { database, database_tag, retention_policy_tag } = this.config
    const named = databaseName(parametersOf(query))
    if (named.database === undefined) throw new SvcError('BAD_REQUEST', 'cannot delete: the parameter "bucket", or "db", is missing')
    if (database === 'namespace') requireSelected(named.database, namespace)
    if (database === 'tag') {
      const tags = databaseTags(named, { database: database_tag, retentionPolicy: retention_policy_tag }, DEFAULT_LIMITS.maxTagValueBytes)
      return tags.flatMap((tag, i) => (i % 2 === 0 ? [{ tag, op: '=' as const, value: tags[i + 1] }] : []))
    }
    // What is asked for is one bucket, and what would go is all of them.
    if (database === 'ignored' && !predicate.measurements.some(({ equal }) => equal))
      throw new SvcError(
        'BAD_REQUEST',
        `cannot delete from bucket ${shown(named.database)} as a whole: line_protocol.database is "ignored", so that all buckets share their measurements; name one by _measurement="...", or set it to "tag" or "namespace"`,
      )
    return []
  }

  private async chosen(namespace: string, { measurements: rules }: Predicate): Promise<string[]> {
    // Of thousands of measurements, a thousand rules on each would hold the event loop.
    const named = rules.find(({ equal }) => equal)?.name
    const left = new Set(rules.filter(({ equal }) => !equal).map(({ name }) => name))
    if (rules.some(({ equal, name }) => equal && name !== named)) return []
    const known = await this.svc.storage.measurements(namespace, named)
    return known.map(({ name }) => name).filter((name) => !left.has(name))
  }
}

function timeOf(what: 'start' | 'stop', text: string): bigint {
  const nanos = rfc3339Nanos(text)
  if (nanos === undefined)
    throw new SvcError('BAD_REQUEST', `cannot use ${what} ${shown(text)}: it is no time as RFC 3339 has it, such as "2026-01-31T00:00:00Z"`)
  return nanos < BEFORE_ALL ? BEFORE_ALL : nanos > AFTER_ALL ? AFTER_ALL : nanos
}
