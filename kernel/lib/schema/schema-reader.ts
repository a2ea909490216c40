import { createRequire } from 'node:module'
import { compile, REFUSED, type Reader } from './reader.ts'

/** @public What is wrong with a value, in the words of TypeBox. */
export interface Problem {
  /** JSON pointer into the value. */
  instancePath: string
  message: string
  /** Of JSON Schema. */
  keyword: string
  params: object
}

interface TypeBoxValue {
  Convert(schema: object, value: unknown): unknown
  Default(schema: object, value: unknown): unknown
  Errors(schema: object, value: unknown): Problem[]
}

let typebox: TypeBoxValue | undefined

/** Some hundred modules: loaded for a value that is refused, or a schema of an unusual kind. */
function typeboxValue(): TypeBoxValue {
  typebox ??= (createRequire(import.meta.url)('typebox/value') as { Value: TypeBoxValue }).Value
  return typebox
}

/** @public Reads values by one schema, of `Type` or any other of TypeBox. */
export class SchemaReader {
  private readonly schema: object
  private readonly reader: Reader | undefined

  constructor(schema: object) {
    this.schema = schema
    this.reader = compile(schema)
  }

  /**
   * The value with defaults put in; it may be changed in place.
   * @param convert text becomes what the schema says, as in a URL.
   */
  read(value: unknown, convert = false): { value: unknown; problems: Problem[] } {
    const read = this.reader === undefined ? REFUSED : this.reader(value, convert)
    if (read !== REFUSED) return { value: read, problems: [] }
    const { Convert, Default, Errors } = typeboxValue()
    const defaulted = Default(this.schema, convert ? Convert(this.schema, value) : value)
    return { value: defaulted, problems: Errors(this.schema, defaulted) }
  }
}
