/** Merkle trees of RFC 6962: hashes of leaves begin with 0x00, those of nodes with 0x01. Hashes are hexadecimal. */
import { hash } from 'node:crypto'

const of = (...parts: (number | string)[]): string =>
  hash('sha256', Buffer.concat(parts.map((part) => (typeof part === 'number' ? Buffer.of(part) : Buffer.from(part, 'hex')))))

export const leafHash = (data: string): string => of(0, data)
const nodeHash = (left: string, right: string): string => of(1, left, right)

/** Roots of the whole subtrees of a tree, the largest first: one for each bit of its size. */
export type Frontier = readonly string[]

/** @param size of the tree before. @param leaf its hash. */
export function extended(frontier: Frontier, size: number, leaf: string): string[] {
  const next = [...frontier]
  let node = leaf
  for (let rest = size; rest % 2 === 1; rest = Math.floor(rest / 2)) node = nodeHash(next.pop() as string, node)
  next.push(node)
  return next
}

/** Of no leaves it is the hash of nothing. */
export function rootOf(frontier: Frontier): string {
  return frontier.length === 0 ? hash('sha256', '') : frontier.reduceRight((right, left) => nodeHash(left, right))
}
