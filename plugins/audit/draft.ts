/** What somebody wants recorded, made fit for the audit log: bounded, well-formed, and without the signs that separate values under the hash. */
import { createHash } from 'node:crypto'
import type { AuditRecord } from 'svcdb'
import type { Draft } from './entry.ts'

const LONGEST = { principal: 256, action: 64, resource: 1024, sourceIp: 64, requestId: 128, key: 64, value: 512 }
const MAX_METADATA = 12
/** Written from the record's own members: the hash covers metadata, and not the members of these names. */
const COPIED = ['source_ip', 'request_id']

/** Who an entry without a caller is by. */
const SERVER = 'system'

export function draftOf({ principal = SERVER, address, requestId, ...record }: DraftInput): Draft {
  const sourceIp = address ? clean(address, LONGEST.sourceIp) : undefined
  const request = requestId ? clean(requestId, LONGEST.requestId) : undefined
  const metadata = new Map<string, string>()
  const given = Object.entries(record.metadata ?? {})
  for (const [key, value] of given.slice(0, MAX_METADATA)) metadata.set(cleanKey(key), clean(String(value), LONGEST.value))
  if (given.length > MAX_METADATA) metadata.set('metadata_left_out', String(given.length - MAX_METADATA))
  if (sourceIp !== undefined) metadata.set('source_ip', sourceIp)
  if (request !== undefined) metadata.set('request_id', request)
  return {
    principal: clean(principal, LONGEST.principal),
    action: clean(record.action, LONGEST.action),
    resource: clean(record.resource, LONGEST.resource),
    decision: record.decision,
    ...(sourceIp === undefined ? {} : { sourceIp }),
    ...(request === undefined ? {} : { requestId: request }),
    // Keys are ASCII, where the order of UTF-16 units is that of bytes.
    metadata: [...metadata].sort(([a], [b]) => (a < b ? -1 : 1)),
  }
}

export interface DraftInput extends Omit<AuditRecord, 'by'> {
  principal?: string
  address?: string
  requestId?: string
}

/**
 * `|` becomes `%7C`, and `%7C` and `%25` become `%257C` and `%2525`, so that no two values are written alike. What is too long keeps its beginning,
 * and ends in `…` and 16 digits of its SHA-256.
 */
function clean(text: string, longest: number): string {
  const beginning = text.slice(0, longest + 1).toWellFormed()
  const escaped = beginning.replace(/%(?=7C|25)/g, '%25').replaceAll('|', '%7C')
  if (text.length <= longest && escaped.length <= longest) return escaped
  const digest = createHash('sha256').update(text.toWellFormed()).digest('hex').slice(0, 16)
  return `${escaped.slice(0, longest - 17).toWellFormed()}…${digest}`
}

function cleanKey(key: string): string {
  const name = key.replace(/[^A-Za-z0-9_.-]/g, '_').slice(0, LONGEST.key) || '_'
  return COPIED.includes(name) ? `${name}_given` : name
}
