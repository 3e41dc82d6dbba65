"""What has to be right in a project before TPUs work: networks, keys, logging; and the doctor.

The doctor says what is wrong and how to mend it, and changes nothing.
"""
