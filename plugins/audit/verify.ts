/** Reads whole files and finds the first broken link, in bounded memory. */
import { createReadStream } from 'node:fs'
import { type Beginning, ChainCheck } from './chain.ts'
import type { Seal } from './entry.ts'

/** Longer than any line of the server's, so that audit logs of others are read as well. */
const LONGEST_LINE_BYTES = 1 << 20
const CHUNK_BYTES = 1 << 18
const LINE_FEED = 0x0a
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

interface Broken {
  file: string
  /** From 1. */
  line: number
  id: bigint | undefined
  problem: string
}

export interface Verdict {
  entries: number
  firstId: bigint | undefined
  lastId: bigint | undefined
  lastHash: string | undefined
  broken: Broken | undefined
  /** Entries after each of the expected ones, by hash; those that were not met are not in it. */
  sinceExpected: Map<string, number>
}

interface VerifyOptions {
  beginning: Beginning
  /** Hashes of entries that must be among them. */
  expected?: readonly string[]
}

/** @param files in the order in which the chain goes through them. @throws NodeJS.ErrnoException of a file that cannot be read. */
export async function verify(files: readonly string[], seal: Seal, { beginning, expected = [] }: VerifyOptions): Promise<Verdict> {
  const chain = new ChainCheck(seal, beginning)
  const verdict: Verdict = { entries: 0, firstId: undefined, lastId: undefined, lastHash: undefined, broken: undefined, sinceExpected: new Map() }
  for (const file of files) {
    let number = 0
    for await (const line of linesOf(file)) {
      number++
      const read = chain.entries
      const problem = typeof line === 'string' ? line : problemOf(chain, line)
      if (problem !== undefined) {
        verdict.broken = { file, line: number, id: chain.entries > read ? chain.last?.id : undefined, problem }
        return verdict
      }
      const { id, hash } = chain.last as NonNullable<ChainCheck['last']>
      verdict.entries++
      verdict.firstId ??= id
      verdict.lastId = id
      verdict.lastHash = hash
      for (const [met, count] of verdict.sinceExpected) verdict.sinceExpected.set(met, count + 1)
      if (expected.includes(hash)) verdict.sinceExpected.set(hash, 0)
    }
  }
  return verdict
}

function problemOf(chain: ChainCheck, line: Uint8Array): string | undefined {
  let text: string
  try {
    text = decoder.decode(line)
  } catch {
    return 'it is not UTF-8'
  }
  return chain.problem(text)
}

/** Lines without their line feeds; a text in place of a line says what is wrong, and is the last. */
async function* linesOf(file: string): AsyncGenerator<Uint8Array | string> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of createReadStream(file, { highWaterMark: CHUNK_BYTES }) as AsyncIterable<Buffer>) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let from = 0
    for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, from)) {
      if (end - from > LONGEST_LINE_BYTES) return yield tooLong
      yield bytes.subarray(from, end)
      from = end + 1
    }
    rest = bytes.subarray(from)
    if (rest.length > LONGEST_LINE_BYTES) return yield tooLong
  }
  if (rest.length > 0) yield 'half a line: a crash left it, or it is being written; a server that starts on the file cuts it off'
}

const tooLong = `it is longer than ${LONGEST_LINE_BYTES} bytes`
