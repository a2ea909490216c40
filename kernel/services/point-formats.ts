/**
 * Formats of points: the bytes of a message to columns, for sources (`svcdb/lib/source`). The plugin that owns a format provides the service
 * `pointFormat(name)`, a `PointFormat`; a source finds those that its configuration names.
 */
import type { WriteBatch } from '../lib/columns/index.ts'
import type { SvcError } from '../lib/errors/index.ts'

const PREFIX = 'point_format.'

/** The name of the service of a format, such as `line_protocol` or `json`. */
export const pointFormat = (name: string): string => PREFIX + name

/** Names of the formats among the services. @param provided as of `Svc.provided`. */
export const pointFormats = (provided: Iterable<string>): string[] =>
  [...provided].flatMap((name) => (name.startsWith(PREFIX) ? [name.slice(PREFIX.length)] : [])).sort()

/** The service `pointFormat(name)`. */
export interface PointFormat {
  /** Whether points may be given a measurement that they do not name, and tags. */
  readonly defaults: boolean
  /** Whether its values may be NaN or infinite, or staleness markers: the option `nonFinite` of a write. */
  readonly nonFinite: boolean
  /** Messages mean something with those before them: all of a topic are to come to one reader, in their order. */
  readonly ordered?: boolean
  /** What reads the messages of one source: with caches of its own, for one namespace. */
  reader(source?: PointSource): PointReader
}

/** What a reader may ask of the source it reads for. */
export interface PointSource {
  /** Sends a message to where the others come from. It may be lost. */
  send?(topic: string, body: Uint8Array): void
}

/** A message when it comes. */
export interface PointArrival {
  topic: string
  body: Uint8Array
  /** It may have come before. */
  redelivered: boolean
}

/** A message that is to be read, and what holds for points that do not say it themselves. */
export interface PointMessage {
  /** The reader's until `read` has ended. */
  body: Uint8Array
  /** Of points that carry no time, nanoseconds since the Unix epoch. */
  time: bigint
  /** Of points that name none. */
  measurement?: string
  /** Tags that each point gets: key, value, key, value. A point that has one with another value is refused. */
  tags?: readonly string[]
  /** What `arrived` has made of it. */
  arrival?: unknown
}

/** Reads the messages of one source. */
export interface PointReader {
  /**
   * Appends the points of a message to the batch.
   * @param further another batch, by name, for rows that cannot share one with others.
   * @returns what is wrong with a part of the message, the rest of which was appended. @throws SvcError when nothing of it can be read; what was appended until then is to be taken back.
   */
  read(message: PointMessage, batch: WriteBatch, further: (name: string) => WriteBatch): SvcError | undefined | Promise<SvcError | undefined>
  /**
   * Formats whose messages mean something with those before them: called once for each message when it comes, in order, where `read` may come later and more
   * than once. Never throws. What takes long is a promise: no other message comes, and no `interrupted`, until it has settled.
   * @returns what `read` is given as `arrival`.
   */
  arrived?(message: PointArrival): unknown
  /** The source was away: messages may have been missed. */
  interrupted?(): void
}
