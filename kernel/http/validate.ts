/** Checks of route schemas, made once. Text from the URL is converted to the schema's types; bodies never are. */
import { type Problem, SchemaReader } from '../lib/schema/index.ts'

interface Compiled {
  value?: unknown
  error?: Error
}

export function validatorCompiler({ schema, httpPart }: { schema: unknown; httpPart?: string }): (data: unknown) => Compiled {
  const reader = new SchemaReader(schema as object)
  const isBody = httpPart === 'body'
  return (data) => {
    const { value, problems } = reader.read(data, !isBody)
    const [first] = problems
    if (first === undefined) return { value }
    const name = first.instancePath.slice(1)
    if (httpPart === 'querystring' && Array.isArray((data as Record<string, unknown>)[name]))
      return { error: new Error(`cannot use parameter "${name}": it is there more than once; send it once`) }
    return { error: new Error(describe(httpPart ?? 'request', first, problems)) }
  }
}

function describe(part: string, { instancePath, keyword, message }: Problem, problems: readonly Problem[]): string {
  const where = `${part}${instancePath.replace(/\/(\d+)(?=\/|$)/g, '[$1]').replaceAll('/', '.')}`
  // Of a choice there is a problem for each value that may be.
  const choice = problems.flatMap((problem) => (problem.instancePath === instancePath && problem.keyword === 'const' ? [shown(problem)] : []))
  if (choice.length > 0) return `${where} must be ${choice.join(' or ')}`
  // TypeBox reports a member that is not in the schema as one whose schema is `false`.
  return `${where} ${keyword === 'boolean' ? 'is not a known member' : message}`
}

const shown = ({ params }: Problem): string => JSON.stringify((params as { allowedValue: unknown }).allowedValue)
