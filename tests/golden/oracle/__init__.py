"""An oracle for kerf's codecs: every format and encoder once more, from the specification alone.

It shares no line and no method with the C code. Values are Python floats that hold an fp32 value
exactly, each arithmetic step is one IEEE operation followed by one rounding, and the code of an
element is found by looking for the nearest value of a table, never by arithmetic on bits.
"""
