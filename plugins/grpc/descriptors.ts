/** The proto files of the folder as FileDescriptorProto messages (google/protobuf/descriptor.proto), and what is where in them. */
import { fileURLToPath } from 'node:url'
import { ProtobufReader, readText } from 'svcdb/lib/protobuf'

export interface ProtoFile {
  name: string
  descriptor: Uint8Array
}

export class Descriptors {
  readonly services: string[] = []
  private readonly byName = new Map<string, ProtoFile>()
  /** Full names of services, methods, messages, fields and enums. */
  private readonly bySymbol = new Map<string, ProtoFile>()

  /** @param files of proto files in this folder. */
  static async load(files: readonly string[]): Promise<Descriptors> {
    // Loaded here: only reflection needs the compiler.
    const { load } = await import('@grpc/proto-loader')
    const found = new Descriptors()
    for (const file of files) {
      const definition = await load(fileURLToPath(new URL(file, import.meta.url)), { keepCase: true })
      for (const one of Object.values(definition)) {
        if ('fileDescriptorProtos' in one) for (const descriptor of one.fileDescriptorProtos as Buffer[]) found.add(descriptor)
      }
    }
    return found
  }

  file(name: string): ProtoFile | undefined {
    return this.byName.get(name)
  }

  fileOf(symbol: string): ProtoFile | undefined {
    return this.bySymbol.get(symbol)
  }

  private add(descriptor: Uint8Array): void {
    const reader = new ProtobufReader()
    reader.begin(descriptor)
    const file: ProtoFile = { name: '', descriptor }
    let prefix = ''
    const symbols: string[] = []
    while (reader.next()) {
      if (reader.field === 1) file.name = readText(reader, 'name')
      else if (reader.field === 2) prefix = `${readText(reader, 'package')}.`
      else if (reader.field === 4) symbolsOf(reader, '', MESSAGE, symbols)
      else if (reader.field === 5) symbolsOf(reader, '', NAMED, symbols)
      else if (reader.field === 6) {
        const first = symbols.length
        symbolsOf(reader, '', SERVICE, symbols)
        symbols.push(`service ${symbols[first]}`)
      } else reader.skip()
    }
    if (this.byName.has(file.name)) return
    this.byName.set(file.name, file)
    for (const symbol of symbols) {
      if (symbol.startsWith('service ')) this.services.push(prefix + symbol.slice('service '.length))
      else this.bySymbol.set(prefix + symbol, file)
    }
  }
}

/** Numbers of the members that name further symbols, by kind of descriptor. */
interface Members {
  [member: number]: Members | undefined
}
const NAMED: Members = {}
/** field = 2, nested_type = 3, enum_type = 4. */
const MESSAGE: Members = { 2: NAMED, 4: NAMED }
MESSAGE[3] = MESSAGE
/** method = 2. */
const SERVICE: Members = { 2: NAMED }

/** Appends the descriptor at hand and what is in it; its name, number 1, comes first. */
function symbolsOf(reader: ProtobufReader, prefix: string, members: Members, symbols: string[]): void {
  const outer = reader.enter()
  let own = prefix
  while (reader.next()) {
    const inner = members[reader.field]
    if (reader.field === 1) symbols.push((own = prefix + readText(reader, 'name')))
    else if (inner === undefined) reader.skip()
    else symbolsOf(reader, `${own}.`, inner, symbols)
  }
  reader.leave(outer)
}
