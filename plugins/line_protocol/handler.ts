/** The HTTP side: reads the request, hands its bytes to the namespace's parser and its points to `svc.ingest`. */
import type { FastifyReply } from 'fastify'
import { type CallContext, type Counter, type HttpRequest, hungUp, type Svc } from 'svcdb'
import { PerNamespace } from 'svcdb/lib/cache'
import { SvcError } from 'svcdb/lib/errors'
import { withoutBom } from 'svcdb/lib/text'
import { nothingParsed, notWhole, refusal, tooManyPoints } from './answer.ts'
import type { LineProtocolConfig } from './config.ts'
import { databaseName, databaseTags, parametersOf, shown } from './database-name.ts'
import { DEFAULT_LIMITS } from './limits.ts'
import type { Precision } from './line-time.ts'
import { areJoined } from './lines.ts'
import { requireSelected } from './namespace-source.ts'
import { Parsers } from './parsers.ts'

/** InfluxDB 2 names and the older ones of InfluxDB 1. */
const PRECISIONS: Record<string, Precision> = { ns: 'ns', n: 'ns', us: 'us', u: 'us', µ: 'us', ms: 'ms', s: 's', m: 'm', h: 'h' }

/** InfluxDB 3 names; it takes the short ones, too. */
const LONG_PRECISIONS: Record<string, Precision> = {
  ...{ auto: 'auto', nanosecond: 'ns', microsecond: 'us', millisecond: 'ms', second: 's' },
  ...{ ns: 'ns', us: 'us', ms: 'ms', s: 's' },
}

interface WriteQuery {
  precision?: string
  backfill?: boolean
  accept_partial?: boolean
}

/** The API of InfluxDB that a route is of. */
interface Dialect {
  /** What `precision` is called. */
  precisions: Record<string, Precision>
  /** What it is where none is named. */
  usual: Precision
  /** Whether a refusal lists the lines at fault. */
  lists: boolean
}

export const DIALECTS = {
  2: { precisions: PRECISIONS, usual: 'ns', lists: false },
  3: { precisions: LONG_PRECISIONS, usual: 'auto', lists: true },
} as const satisfies Record<number, Dialect>

export class WriteHandler {
  private readonly svc: Svc
  private readonly config: LineProtocolConfig
  private readonly written: Counter
  private readonly ignored: Counter
  private readonly parsers: Parsers
  /** The database that a namespace's first write named, while names are ignored. */
  private readonly firstNames: PerNamespace<{ name?: string }>
  private warned = false

  constructor(svc: Svc, config: LineProtocolConfig) {
    this.svc = svc
    this.config = config
    this.parsers = new Parsers(() => svc.storage.resolver, config, config.max_cached_namespaces, config.series_cache_bytes)
    this.firstNames = new PerNamespace(config.max_cached_namespaces, () => ({}))
    this.written = svc.metrics.counter('influx_points_written_total', 'Points written by line protocol')
    this.ignored = svc.metrics.counter(
      'influx_other_database_writes_total',
      'Writes that named another database than the first of their namespace did, while line_protocol.database is "ignored": all of them share their measurements',
    )
  }

  async write(request: HttpRequest, reply: FastifyReply, dialect: Dialect): Promise<FastifyReply> {
    const { svc } = this
    const query = request.query as WriteQuery
    const precision = precisionOf(query.precision, dialect)
    const context = svc.context(request)
    const body = withoutBom((request.body as Buffer | undefined) ?? Buffer.alloc(0))
    const maxPoints = svc.server.max_write_batch_size
    const nanIsNull = QUESTDB_CLIENT.test(request.headers['user-agent'] ?? '')
    const tags = this.tagsOf(request.query, context)
    const idempotencyKey = request.headers['idempotency-key'] as string | undefined
    const { filled: outcome, ...result } = await svc.ingest.write(context, { backfill: query.backfill === true, idempotencyKey }, async (batch) => {
      const options = { precision, now: svc.clock.nowNanos(), maxPoints, nanIsNull }
      const parser = this.parsers.get(context.dataNamespace, tags)
      const outcome = await parser.turns.run(() => parser.parse(body, batch, options), hungUp(request))
      if (outcome.tooMany) throw tooManyPoints(maxPoints)
      if (query.accept_partial === false && outcome.rejected > 0) throw notWhole(outcome, dialect.lists)
      return outcome
    })
    if (outcome.rows === 0 && outcome.rejected > 0) throw nothingParsed(outcome, dialect.lists, areJoined(body))
    this.written.inc(result.written)
    const refused = refusal(outcome, result, dialect.lists)
    if (refused !== undefined) throw refused
    return reply.code(204).send()
  }

  /** Tags that the names in the request make. @throws BAD_REQUEST for names that cannot be followed. */
  private tagsOf(query: Record<string, unknown>, { namespace, dataNamespace }: CallContext): string[] {
    const { database, database_tag, retention_policy_tag } = this.config
    if (database === 'ignored') {
      const name = query.db || query.bucket
      if (typeof name === 'string') this.noteIgnored(name, dataNamespace)
      return []
    }
    const named = databaseName(parametersOf(query))
    if (database === 'namespace') {
      requireSelected(named.database, namespace)
      return []
    }
    return databaseTags(named, { database: database_tag, retentionPolicy: retention_policy_tag }, DEFAULT_LIMITS.maxTagValueBytes)
  }

  private noteIgnored(given: string, namespace: string): void {
    const name = given.slice(0, MAX_KEPT_NAME)
    const first = this.firstNames.get(namespace)
    first.name ??= name
    if (first.name === name) return
    this.ignored.inc()
    if (this.warned) return
    this.warned = true
    this.svc.log.warn(
      `writes name the databases ${shown(first.name)} and ${shown(name)}, and the names are ignored: their points share measurements, and equal series and times overwrite one another; set line_protocol.database to "tag" or "namespace" to keep them apart`,
    )
  }
}

function precisionOf(text: string | undefined, { precisions, usual }: Dialect): Precision {
  if (text === undefined || text === '') return usual
  if (!Object.hasOwn(precisions, text))
    throw new SvcError('BAD_REQUEST', `cannot use precision "${text.slice(0, 32)}": it is one of ${Object.keys(precisions).join(', ')}`)
  return precisions[text]
}

/** To QuestDB NaN is NULL, and its clients write a missing number of a data frame so; InfluxDB refuses it. */
const QUESTDB_CLIENT = /^questdb\//i

/** Characters of a database's name that are kept to compare with. */
const MAX_KEPT_NAME = 256
