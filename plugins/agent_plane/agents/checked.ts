/** Values against schemas that come from outside of the plane. */
import { SchemaReader } from 'svcdb/lib/schema'

const readers = new WeakMap<object, SchemaReader>()

/** @returns what is wrong with the value, and where; undefined = nothing. */
export function problemOf(schema: object, value: unknown): string | undefined {
  const reader = readers.get(schema) ?? new SchemaReader(schema)
  readers.set(schema, reader)
  const [problem] = reader.read(structuredClone(value)).problems
  return problem === undefined ? undefined : `${problem.instancePath || 'it'} ${problem.message}`
}
