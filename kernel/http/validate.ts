/** Route schemas are checked with TypeBox, compiled once. Text from the URL is converted to the schema's types; bodies never are. */
import { Compile } from 'typebox/compile'

interface Compiled {
  value?: unknown
  error?: Error
}

export function validatorCompiler({ schema, httpPart }: { schema: unknown; httpPart?: string }): (data: unknown) => Compiled {
  const validator = Compile(schema as never)
  const isBody = httpPart === 'body'
  return (data) => {
    const value = validator.Default(isBody ? data : validator.Convert(data))
    if (validator.Check(value)) return { value }
    const [first] = validator.Errors(value)
    const name = first?.instancePath.slice(1) ?? ''
    if (httpPart === 'querystring' && Array.isArray((data as Record<string, unknown>)[name]))
      return { error: new Error(`cannot use parameter "${name}": it is there more than once; send it once`) }
    return { error: new Error(describe(httpPart ?? 'request', first)) }
  }
}

function describe(part: string, error: { instancePath: string; message: string; keyword: string } | undefined): string {
  const where = `${part}${(error?.instancePath ?? '').replace(/\/(\d+)(?=\/|$)/g, '[$1]').replaceAll('/', '.')}`
  // TypeBox reports a member that is not in the schema as one whose schema is `false`.
  return `${where} ${error?.keyword === 'boolean' ? 'is not a known member' : (error?.message ?? 'does not match its schema')}`
}
