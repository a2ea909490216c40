/**
 * Answers are written by JSON.stringify, with no member that their schema does not name: what a handler holds beside its answer stays with it.
 * Compiled serializers would cost each start, and load a validator of their own.
 */

interface Schema {
  properties?: Record<string, Schema>
  items?: Schema
  additionalProperties?: unknown
  patternProperties?: unknown
}

type Keep = (value: unknown) => unknown

export function serializerCompiler({ schema }: { schema: unknown }): (value: unknown) => string {
  const keep = keeper(schema as Schema)
  return keep === undefined ? JSON.stringify : (value) => JSON.stringify(keep(value))
}

/** What is left of a value; undefined where that is all of it. */
function keeper(schema: Schema | undefined): Keep | undefined {
  if (typeof schema !== 'object') return undefined
  const { properties, items, additionalProperties = false, patternProperties } = schema
  if (properties !== undefined && additionalProperties === false && patternProperties === undefined) return memberKeeper(properties)
  const item = keeper(items)
  return item === undefined ? undefined : (value) => (Array.isArray(value) ? value.map(item) : value)
}

function memberKeeper(properties: Record<string, Schema>): Keep {
  const members = Object.entries(properties).map(([name, schema]) => ({ name, keep: keeper(schema) }))
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || typeof (value as { toJSON?: unknown }).toJSON === 'function') return value
    const kept: Record<string, unknown> = {}
    for (const { name, keep } of members) {
      const member = (value as Record<string, unknown>)[name]
      if (member !== undefined) kept[name] = keep === undefined ? member : keep(member)
    }
    return kept
  }
}
