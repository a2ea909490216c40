/** Values that queries of PromQL come to in time. */
import assert from 'node:assert/strict'
import { lookUntil } from '../support/until.ts'
import { vector } from './promql/compare.ts'

interface Writes {
  output(): string
}

export const valuesOf = async (url: string, query: string): Promise<number[]> => (await vector(url, query)).map(({ value }) => value)

/** @throws AssertionError with the values, and with what the node and the program that sends to it have written. */
export async function untilValues(node: Writes & { url: string }, sender: Writes, query: string, enough: (values: number[]) => boolean): Promise<void> {
  const values = await lookUntil(() => valuesOf(node.url, query), enough)
  assert.ok(enough(values), `${query} gives ${values}\n${sender.output()}\n${node.output()}`)
}
