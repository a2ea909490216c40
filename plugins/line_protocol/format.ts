/** Line protocol as a format of messages: of brokers, say. */
import type { PointFormat, PointMessage, PointReader, Svc, WriteBatch } from 'svcdb'
import type { SvcError } from 'svcdb/lib/errors'
import { withoutBom } from 'svcdb/lib/text'
import { nothingParsed, refusal, tooManyPoints } from './answer.ts'
import type { LineProtocolConfig } from './config.ts'
import { Parsers } from './parsers.ts'

/** Sets of tags, such as those of topics, that have a cache of series at one time. What all of them hold is what a namespace may. */
const TAG_SETS = 1024
const MIN_CACHE_BYTES = 65_536

export function lineFormat(svc: Svc, config: LineProtocolConfig): PointFormat {
  return { defaults: true, nonFinite: false, reader: () => new LineReader(svc, config) }
}

/** A point names its measurement: the one of the message has no use. */
class LineReader implements PointReader {
  private readonly svc: Svc
  private readonly plain: Parsers
  private readonly tagged: Parsers

  constructor(svc: Svc, config: LineProtocolConfig) {
    this.svc = svc
    const resolver = () => svc.storage.resolver
    this.plain = new Parsers(resolver, config, 1, config.series_cache_bytes)
    this.tagged = new Parsers(resolver, config, TAG_SETS, Math.max(MIN_CACHE_BYTES, Math.floor(config.series_cache_bytes / TAG_SETS)))
  }

  read({ body, time, tags = [] }: PointMessage, batch: WriteBatch): SvcError | undefined | Promise<SvcError | undefined> {
    const maxPoints = this.svc.server.max_write_batch_size
    const parser = (tags.length === 0 ? this.plain : this.tagged).get(batch.namespace, tags)
    const parsed = parser.turns.run(() => parser.parse(withoutBom(body), batch, { precision: 'ns', now: time, maxPoints }))
    return parsed instanceof Promise ? parsed.then(check) : check(parsed)

    function check(outcome: Awaited<typeof parsed>): SvcError | undefined {
      if (outcome.tooMany) throw tooManyPoints(maxPoints)
      if (outcome.rows === 0 && outcome.rejected > 0) throw nothingParsed(outcome)
      return refusal(outcome, { written: outcome.rows, rejected: 0, rejections: [] })
    }
  }
}
