/**
 * Bytes that steps keep beside their journal: content by its SHA-256, once, in parts; and who has it, with the label that it bears there. An owner is a case, or a
 * run that is in none.
 */
import { hash } from 'node:crypto'
import type { StateReader, StateTransaction } from 'svcdb'
import { joined, type Label } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'

export const MAX_BLOB_BYTES = 4 << 20
/** A row is a text in JSON. */
const PART_BYTES = 192 << 10
const DIGEST = /^[0-9a-f]{64}$/

/** Bytes are not there, or are others than were kept. */
export class DamagedBlob extends Error {}

interface Content {
  size: number
  parts: number
}

/** That an owner has it. */
interface Holding {
  size: number
  label: Label
}

const contentKey = (digest: string): string => `blob/${digest}`
const partKey = (digest: string, index: number): string => `blob-part/${digest}/${String(index).padStart(4, '0')}`
const holdingPrefix = (owner: string): string => `blob-of/${owner}/`

export function blobDigest(bytes: Uint8Array): string {
  return hash('sha256', bytes)
}

/** @throws SvcError BAD_REQUEST for too many bytes. */
export async function keepBlob(tx: StateTransaction, owner: string, bytes: Uint8Array, label: Label): Promise<string> {
  if (bytes.length > MAX_BLOB_BYTES)
    throw new SvcError('BAD_REQUEST', `cannot keep ${bytes.length} bytes: ${MAX_BLOB_BYTES} is the limit; keep them in several blobs, or elsewhere`)
  const digest = blobDigest(bytes)
  if ((await tx.get(contentKey(digest))) === undefined) {
    const parts = Math.ceil(bytes.length / PART_BYTES)
    for (let i = 0; i < parts; i++) tx.put(partKey(digest, i), Buffer.from(bytes.subarray(i * PART_BYTES, (i + 1) * PART_BYTES)).toString('base64'))
    tx.put(contentKey(digest), { size: bytes.length, parts } satisfies Content)
  }
  const key = holdingPrefix(owner) + digest
  const held = await tx.get<Holding>(key)
  tx.put(key, { size: bytes.length, label: held === undefined ? label : joined(held.label, label) } satisfies Holding)
  return digest
}

/** @returns undefined where the owner does not have it. @throws DamagedBlob. */
export async function blobOf(state: StateReader, owner: string, digest: string): Promise<{ bytes: Uint8Array; label: Label } | undefined> {
  const held = DIGEST.test(digest) ? await state.get<Holding>(holdingPrefix(owner) + digest) : undefined
  return held === undefined ? undefined : { bytes: await contentOf(state, digest), label: held.label }
}

async function contentOf(state: StateReader, digest: string): Promise<Uint8Array> {
  const refuse = (why: string) => new DamagedBlob(`cannot read blob "${digest}": ${why}`)
  const content = await state.get<Content>(contentKey(digest))
  if (content === undefined) throw refuse('it is not there')
  const parts = await state.list<string>({ prefix: `blob-part/${digest}/` })
  const bytes = Buffer.concat(parts.map(({ value }) => Buffer.from(value, 'base64')))
  if (bytes.length !== content.size || blobDigest(bytes) !== digest) throw refuse('its bytes are others than were kept')
  return bytes
}

/** What is wrong with the blobs of an owner; empty = nothing. */
export async function blobFaults(state: StateReader, owner: string): Promise<string[]> {
  const faults: string[] = []
  for (const { key } of await state.list({ prefix: holdingPrefix(owner) })) {
    try {
      await contentOf(state, key.slice(holdingPrefix(owner).length))
    } catch (error) {
      if (!(error instanceof DamagedBlob)) throw error
      faults.push((error as Error).message)
    }
  }
  return faults
}
