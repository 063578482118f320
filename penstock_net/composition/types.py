"""The types of a user's scheme: its records and state, how their fields are reached, and what its module imports."""

from __future__ import annotations

from penstock_net.composition.declare import C_TYPES, GIVEN, OWNERS, TYPES, Declarations, Field, Record, class_of
from penstock_net.composition.known import C_KINDS, NUMBERS

IMPORTS = f"""\
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint16_t, uint64_t
from penstock_net.fabric.arithmetic cimport ceil, exp, floor, log, power, sqrt
from penstock_net.fabric.checked cimport *
from penstock_net.fabric.failure cimport fail
from penstock_net.fabric.pacing cimport avoid_ports, first_flow_of, hold_flow, let_go, repace, set_rank, set_rate, try_send
from penstock_net.fabric.incoming cimport first_ranked, inbound_ps_per_byte, rank_incoming, unrank_incoming
from penstock_net.fabric.ranking cimport best_packet, earliest_packet, worst_packet
from penstock_net.fabric.switch cimport discard, drop_queued, exchange_with_tail, move_to_head
from penstock_net.fabric.state cimport SCHEME_FAULT, Guard, Worker, World, {", ".join((*TYPES, *GIVEN["state"]))}"""


class Types:
    """What a scheme declares, by the name of the C struct: "Me", "MyPort", ..., and a name for each of its records."""

    def __init__(self, declared: Declarations) -> None:
        self.declared = declared
        self.structs: dict[str, Record] = {class_of(name): record for name, record in declared.records.items()}
        for owner, record in declared.state.items():
            if record.fields:
                self.structs["My" + class_of(owner)] = record
        self.structs["Me"] = declared.own
        self.reused = {"MyPacket", "MyFrame"} & set(self.structs)  # structs in memory that is not zero at first
        for struct in sorted(self.reused):
            self.reused |= {class_of(f.element) for f in self.structs[struct].fields if f.is_record}

    def field(self, struct: str, name: str) -> Field | None:
        record = self.structs.get(struct)
        return next((f for f in record.fields if f.name == name), None) if record else None

    def own_field(self, struct: str, name: str) -> tuple[str, str] | None:
        """(kind, C type) of a field that the scheme declares; a table's NAME_count is one, too."""
        field = self.field(struct, name)
        if field is None:
            table = self.field(struct, name.removesuffix("_count")) if name.endswith("_count") else None
            return ("int", "const") if table and table.table else None
        if field.is_record:
            return "*" + class_of(field.element), "record"
        c = C_TYPES[field.element][0]
        return ("[" + c.removesuffix("_t") if field.length else NUMBERS[c]), c

    def c_type(self, kind: str) -> str:
        if kind.startswith("*"):
            return kind[1:] + "*"
        return "Array_" + kind[1:] if kind.startswith("[") else C_KINDS[kind]

    def lines(self) -> list[str]:
        """The beginning of the module: imports, structs, and a function for each table and each part of the state."""
        declared = self.declared
        out = [IMPORTS]
        out += [record.c(struct, "    Places at\n" if struct == "Me" else "") for struct, record in self.structs.items()]
        for owner, record in declared.state.items():
            if record.fields:
                kind, variable = OWNERS[owner].split()
                mine = "My" + class_of(owner)
                out.append(
                    f"cdef inline {mine}* my_{owner}(Me* me, {kind} {variable}) noexcept nogil:\n"
                    f"    return <{mine}*>(<char*>{variable} + me.at.{owner})"
                )
        for struct, record in self.structs.items():
            for field in record.fields:
                if field.length:
                    out.append(self.table(struct, field))
        return "\n".join(out).split("\n")

    def table(self, struct: str, field: Field) -> str:
        """STRUCT_NAME: an element of a table of records, or all of a table of numbers."""
        count = f"owner.{field.name}_count" if field.table else field.length
        if field.is_record:
            return (
                f"cdef inline {class_of(field.element)}* {struct}_{field.name}"
                f"(Guard* guard, int line, {struct}* owner, int64_t index) noexcept nogil:\n"
                f"    return &owner.{field.name}[g_index(guard, line, index, {count})]"
            )
        array = self.c_type("[" + C_TYPES[field.element][0].removesuffix("_t"))
        return (
            f"cdef inline {array} {struct}_{field.name}({struct}* owner) noexcept nogil:\n"
            f"    cdef {array} table\n"
            f"    table.first = owner.{field.name}\n"
            f"    table.count = {count}\n"
            f"    return table"
        )
