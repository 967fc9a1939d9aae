"""The files that need no reference: those that every Protobuf compiler has, or that Confluent's clients have.

Invariant: of each file, all messages and enums are named.
"""

from __future__ import annotations

from typing import Final

_GOOGLE: Final = {
    "any": "Any",
    "api": "Api Method Mixin",
    "duration": "Duration",
    "empty": "Empty",
    "field_mask": "FieldMask",
    "source_context": "SourceContext",
    "struct": "Struct Value ListValue !NullValue",
    "timestamp": "Timestamp",
    "type": "Type Field Enum EnumValue Option !Syntax !Field.Kind !Field.Cardinality",
    "wrappers": (
        "DoubleValue FloatValue Int64Value UInt64Value Int32Value UInt32Value BoolValue StringValue "
        "BytesValue"
    ),
    "descriptor": (
        "FileDescriptorSet FileDescriptorProto DescriptorProto DescriptorProto.ExtensionRange "
        "DescriptorProto.ReservedRange ExtensionRangeOptions ExtensionRangeOptions.Declaration "
        "FieldDescriptorProto OneofDescriptorProto EnumDescriptorProto EnumDescriptorProto.EnumReservedRange "
        "EnumValueDescriptorProto ServiceDescriptorProto MethodDescriptorProto FileOptions MessageOptions "
        "FieldOptions FieldOptions.EditionDefault FieldOptions.FeatureSupport OneofOptions EnumOptions "
        "EnumValueOptions ServiceOptions MethodOptions UninterpretedOption UninterpretedOption.NamePart "
        "FeatureSet FeatureSetDefaults SourceCodeInfo SourceCodeInfo.Location GeneratedCodeInfo "
        "GeneratedCodeInfo.Annotation !Edition !FieldDescriptorProto.Type !FieldDescriptorProto.Label "
        "!FileOptions.OptimizeMode !FieldOptions.CType !FieldOptions.JSType !FieldOptions.OptionRetention "
        "!FieldOptions.OptionTargetType !MethodOptions.IdempotencyLevel"
    ),
}
_GOOGLE_TYPES: Final = {
    "calendar_period": "!CalendarPeriod",
    "color": "Color",
    "date": "Date",
    "datetime": "DateTime TimeZone",
    "dayofweek": "!DayOfWeek",
    "decimal": "Decimal",
    "expr": "Expr",
    "fraction": "Fraction",
    "interval": "Interval",
    "latlng": "LatLng",
    "money": "Money",
    "month": "!Month",
    "phone_number": "PhoneNumber PhoneNumber.ShortCode",
    "postal_address": "PostalAddress",
    "quaternion": "Quaternion",
    "timeofday": "TimeOfDay",
}


def _types(package: str, names: str) -> dict[str, bool]:
    """Full names, and whether each is an enum."""
    return {f"{package}.{name.removeprefix('!')}": name.startswith("!") for name in names.split()}


KNOWN_FILES: Final[dict[str, dict[str, bool]]] = {
    **{f"google/protobuf/{file}.proto": _types("google.protobuf", names) for file, names in _GOOGLE.items()},
    **{f"google/type/{file}.proto": _types("google.type", names) for file, names in _GOOGLE_TYPES.items()},
    "confluent/meta.proto": _types("confluent", "Meta Rule"),
    "confluent/type/decimal.proto": _types("confluent.type", "Decimal"),
    "confluent/type/variant.proto": _types("confluent.type", "Variant"),
    "confluent/types/decimal.proto": _types("confluent.type", "Decimal"),
}
