/** One entry of the audit log: how it is sealed, and how it stands in the file. docs/formats/audit.md has both. */
import { createHash, createHmac, createSecretKey } from 'node:crypto'

export interface Draft {
  principal: string
  action: string
  resource: string
  decision: 'allow' | 'deny'
  sourceIp?: string
  requestId?: string
  /** Keys are unique, and in order of their bytes. */
  metadata: readonly (readonly [key: string, value: string])[]
}

export interface Entry extends Draft {
  /** From 1, without gaps. */
  id: bigint
  /** Nanoseconds since the Unix epoch. */
  timestamp: bigint
  /** Hash of the entry before; undefined on the first. */
  prevHash: string | undefined
  hash: string
}

/** The hash of a text, in hexadecimal. */
export type Seal = (text: string) => string

/** Limits on what one entry can hold, in characters as written; longer values are cut (draft.ts). A line is below 64 KiB with them. */
export const MAX_LINE_BYTES = 65_536

/** @param key undefined = SHA-256 without a key, which whoever can write the file can compute as well. */
export function sealBy(key: Uint8Array | undefined): Seal {
  if (key === undefined) return (text) => createHash('sha256').update(text).digest('hex')
  const secret = createSecretKey(key)
  return (text) => createHmac('sha256', secret).update(text).digest('hex')
}

/** What the hash is over. */
export function sealedText(entry: Omit<Entry, 'hash'>): string {
  const { prevHash = '', id, timestamp, principal, action, resource, decision, metadata } = entry
  return `${prevHash}${id}|${timestamp}|${principal}|${action}|${resource}|${decision}${metadata.map(([key, value]) => `|${key}=${value}`).join('')}`
}

/** The line of an entry, with its line feed. */
export function encodeEntry(entry: Entry): string {
  const { id, timestamp, principal, action, resource, decision, sourceIp, requestId, metadata, prevHash, hash } = entry
  const members = [`"id":${id},"timestamp":${timestamp},"principal":${quote(principal)},"action":${quote(action)}`]
  members.push(`"resource":${quote(resource)},"decision":"${decision}"`)
  if (sourceIp !== undefined) members.push(`"source_ip":${quote(sourceIp)}`)
  if (requestId !== undefined) members.push(`"request_id":${quote(requestId)}`)
  if (metadata.length > 0) members.push(`"metadata":{${metadata.map(([key, value]) => `${quote(key)}:${quote(value)}`).join(',')}}`)
  if (prevHash !== undefined) members.push(`"prev_hash":"${prevHash}"`)
  return `{${members.join(',')},"event_hash":"${hash}"}\n`
}

/** Characters that steer a terminal or turn the direction of text: JSON lets them stand, and who reads the file should not be fooled by them. */
const STEERING = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

function quote(text: string): string {
  return JSON.stringify(text).replace(STEERING, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
