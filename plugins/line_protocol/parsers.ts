/** Parsers, each with its table of known series: one for each namespace and the tags that all points of a body get. */
import { randomInt } from 'node:crypto'
import type { SeriesResolver } from 'svcdb'
import { PerNamespace } from 'svcdb/lib/cache'
import type { LineProtocolConfig } from './config.ts'
import { DEFAULT_LIMITS } from './limits.ts'
import { LineParser } from './parser.ts'

export class Parsers {
  private readonly kept: PerNamespace<LineParser>

  /** @param max of parsers that are kept. @param cacheBytes of series keys, for each. */
  constructor(resolver: () => SeriesResolver, config: LineProtocolConfig, max: number, cacheBytes: number) {
    this.kept = new PerNamespace(max, (key) => {
      const [namespace, ...tags] = key.split('\0')
      return new LineParser(resolver(), namespace, {
        limits: { ...DEFAULT_LIMITS, maxFields: config.max_fields_per_point },
        maxInternedBytes: cacheBytes,
        maxFailures: config.max_reported_errors,
        tags,
        seed: randomInt(2 ** 31),
      })
    })
  }

  /** @param tags key, value, key, value, without null characters. */
  get(namespace: string, tags: readonly string[]): LineParser {
    return this.kept.get(tags.length === 0 ? namespace : [namespace, ...tags].join('\0'))
  }
}
