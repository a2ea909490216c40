/** JSON as a format of messages: an array of points, or one. */
import { randomInt } from 'node:crypto'
import { type PointFormat, type PointMessage, type PointReader, partialWrite, type Svc, type WriteBatch } from 'svcdb'
import { PerNamespace } from 'svcdb/lib/cache'
import type { SvcError } from 'svcdb/lib/errors'
import type { NativeConfig } from './config.ts'
import { type ParsedPoints, PointsParser } from './points.ts'

/** Sets of tags, such as those of topics, that have a cache of series at one time. What all of them hold is what a namespace may. */
const TAG_SETS = 1024
const MIN_CACHE_BYTES = 65_536

export function jsonFormat(svc: Svc, config: NativeConfig): PointFormat {
  return { defaults: true, nonFinite: false, reader: () => new JsonPointReader(svc, config) }
}

class JsonPointReader implements PointReader {
  private readonly svc: Svc
  private readonly config: NativeConfig
  private readonly plain: PerNamespace<PointsParser>
  /** By namespace and tags. */
  private readonly tagged: PerNamespace<PointsParser>

  constructor(svc: Svc, config: NativeConfig) {
    this.svc = svc
    this.config = config
    const parser = (bytes: number) => (key: string) => {
      const [namespace, ...tags] = key.split('\0')
      return new PointsParser(svc.storage.resolver, namespace, bytes, randomInt(2 ** 31), tags)
    }
    this.plain = new PerNamespace(1, parser(config.series_cache_bytes))
    this.tagged = new PerNamespace(TAG_SETS, parser(Math.max(MIN_CACHE_BYTES, Math.floor(config.series_cache_bytes / TAG_SETS))))
  }

  read({ body, time, measurement, tags = [] }: PointMessage, batch: WriteBatch): SvcError | undefined | Promise<SvcError | undefined> {
    const parser = tags.length === 0 ? this.plain.get(batch.namespace) : this.tagged.get([batch.namespace, ...tags].join('\0'))
    const limits = { maxPoints: this.svc.server.max_write_batch_size, maxFields: this.config.max_fields_per_point }
    const parsed = parser.turns.run(() => parser.parse(body, batch, { ...limits, now: time, measurement, single: true }))
    return parsed instanceof Promise ? parsed.then(refusal) : refusal(parsed)
  }
}

function refusal({ points, rejected, rejections }: ParsedPoints): SvcError | undefined {
  return rejected === 0 ? undefined : partialWrite({ written: points - rejected, rejected, rejections })
}
