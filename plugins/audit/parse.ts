/** A line of the file as an entry, read strictly: whatever a reader could see in it is what its hash is over. */
import type { Entry } from './entry.ts'

/** The first member; what a crash leaves of a line begins like it. */
export const BEGINNING = '{"id":'
const REQUIRED = ['id', 'timestamp', 'principal', 'action', 'resource', 'decision', 'event_hash']
const OPTIONAL = ['source_ip', 'request_id', 'metadata', 'prev_hash']
const MEMBERS = new Set([...REQUIRED, ...OPTIONAL])
const HASH = /^[0-9a-f]{64}$/
const MAX = 2n ** 64n - 1n

/** @returns the entry, or what is wrong with the line. */
export function parseEntry(line: string): Entry | string {
  let members: Record<string, unknown>
  try {
    members = parseExact(line) as Record<string, unknown>
  } catch {
    return 'it is not JSON'
  }
  if (typeof members !== 'object' || members === null || Array.isArray(members)) return 'it is not a JSON object'
  const names = Object.keys(members)
  const missing = REQUIRED.find((name) => !Object.hasOwn(members, name))
  if (missing !== undefined) return `it has no member ${missing}`
  const unknown = names.find((name) => !MEMBERS.has(name))
  if (unknown !== undefined) return `member ${JSON.stringify(unknown.slice(0, 64))} is none of an entry`
  const { id, timestamp, decision, metadata = {}, prev_hash: prevHash, event_hash: hash } = members
  if (!isU64(id) || id === 0n) return 'id is not an integer of 64 bits from 1'
  if (!isU64(timestamp)) return 'timestamp is not an integer of 64 bits'
  if (decision !== 'allow' && decision !== 'deny') return 'decision is neither allow nor deny'
  for (const name of ['principal', 'action', 'resource', 'source_ip', 'request_id']) {
    if (Object.hasOwn(members, name) && typeof members[name] !== 'string') return `${name} is not a string`
  }
  if (prevHash !== undefined && !isHash(prevHash)) return 'prev_hash is not 64 hexadecimal digits'
  if (!isHash(hash)) return 'event_hash is not 64 hexadecimal digits'
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return 'metadata is not an object'
  const pairs = Object.entries(metadata)
  if (pairs.some(([, value]) => typeof value !== 'string')) return 'metadata has a value that is not a string'
  if (keysIn(line) !== names.length + pairs.length) return 'it has a member twice'
  const { principal, action, resource, source_ip: sourceIp, request_id: requestId } = members as Record<string, string>
  // With them the same hash would stand for entries that say different things.
  if ([principal, action, resource, ...pairs.flat()].some((text) => text.includes('|'))) return 'it has a value with "|", which separates values under the hash'
  // Half of a surrogate pair is hashed as U+FFFD is.
  if ([principal, action, resource, ...pairs.flat()].some((text) => !text.isWellFormed())) return 'it has a value that is no Unicode text'
  if (pairs.some(([key]) => key.includes('='))) return 'metadata has a key with "=", which separates it from its value under the hash'
  const copies = metadata as Record<string, string>
  for (const name of ['source_ip', 'request_id'] as const) {
    const copy = Object.hasOwn(copies, name) ? copies[name] : undefined
    if (members[name] !== copy) return `${name} is not what metadata.${name} says`
  }
  const sorted = pairs.sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  return { id, timestamp, principal, action, resource, decision, sourceIp, requestId, metadata: sorted, prevHash: prevHash as string | undefined, hash }
}

/** Integers as bigints: a double does not hold the nanoseconds of today. */
function parseExact(line: string): unknown {
  const reviver = (_key: string, value: unknown, context: { source: string }) =>
    typeof value === 'number' && /^\d{1,20}$/.test(context.source) ? BigInt(context.source) : value
  return JSON.parse(line, reviver as Parameters<typeof JSON.parse>[1])
}

function isU64(value: unknown): value is bigint {
  return typeof value === 'bigint' && value <= MAX
}

function isHash(value: unknown): value is string {
  return typeof value === 'string' && HASH.test(value)
}

/** How many members the text has at any depth; a parser that keeps the last of two of a name does not tell. */
function keysIn(line: string): number {
  let keys = 0
  for (const [, colon] of line.matchAll(/"(?:[^"\\]|\\.)*"\s*(:?)/g)) if (colon !== '') keys++
  return keys
}
