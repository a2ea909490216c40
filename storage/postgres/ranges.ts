/** Ranges of keys as bytes. */
import type { StateRange } from 'svcdb'
import { utf8Order } from '../common/state-draft.ts'

/** Above every key: no UTF-8 has this byte. */
const BEHIND = Buffer.of(0xff)

/** Half open; `limit` null = all. */
export interface Bounds {
  from: Buffer
  until: Buffer
  limit: number | null
}

export function boundsOf({ prefix = '', start = '', end }: StateRange, limit: number | undefined): Bounds {
  const from = Buffer.from(utf8Order(start, prefix) > 0 ? start : prefix)
  const behind = Buffer.from(prefix)
  // The last byte of a UTF-8 text is never 0xff.
  const until = behind.length === 0 ? BEHIND : behind
  if (behind.length > 0) behind[behind.length - 1]++
  const last = end === undefined ? until : Buffer.from(end)
  // int4 in PostgreSQL.
  const most = limit === undefined ? null : Math.max(0, Math.min(Math.floor(limit), 0x7fffffff))
  return { from, until: Buffer.compare(last, until) < 0 ? last : until, limit: Number.isNaN(most) ? 0 : most }
}

export function isWithin(key: string, { prefix = '', start = '', end }: StateRange): boolean {
  return key.startsWith(prefix) && utf8Order(key, start) >= 0 && (end === undefined || utf8Order(key, end) < 0)
}
